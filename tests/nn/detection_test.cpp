// Functions of boxes against loops over torchvision's formulas, in vision_golden.py.
#include "tests/nn/golden_list.hpp"
#include "tests/record/refused.hpp"
#include "weft/nn/vision.hpp"

using namespace weft;
using namespace weft::nn;
using golden_test::wave;
using weft::test::refused;

namespace {

const std::vector<double> golden[] = {
#include "tests/nn/vision_golden.inc"
};
constexpr std::size_t count_of_samples = 46;
using List = std::vector<Tensor>;

Tensor boxes(std::int64_t count, int seed, double extent) {
  const Tensor corner = wave({count, 2}, seed);
  return concat({corner, corner + extent + 0.3 * abs(wave({count, 2}, seed + 1))}, 1);
}

struct Align {
  Tensor rois;
  PerAxis<2> size;
  RoiAlignOptions options;
  List operator()(const List& inputs) const { return {roi_align(inputs[0], rois, size, options)}; }
};

}  // namespace

TEST_CASE("roi_align, box_area and box_iou give torchvision's results and gradients") {
  std::size_t next = count_of_samples;
  const auto check = [&](const List& inputs, auto f) {
    const std::size_t number = next++;
    CAPTURE(number);
    golden_test::check(golden[number], inputs, f);
  };
  const Tensor rois =
      from_list<double>({{0, 1, 0.5, 6.25, 5}, {1, -3, -2.5, 4, 3.1}, {1, 5, 4, 11, 9.5}, {0, 2.2, 2.1, 2.4, 2.6}});
  const Tensor x = wave({2, 3, 5, 6}, 30);
  const auto align = [&](PerAxis<2> size, RoiAlignOptions options) { check({x}, Align{rois, size, options}); };
  align({2, 3}, {.sampling_ratio = 2});
  align({3, 2}, {.spatial_scale = 0.5, .sampling_ratio = 1, .aligned = true});
  align({2, 2}, {.spatial_scale = 0.8, .sampling_ratio = 3, .aligned = true});
  for (const auto& [first, second] : {std::pair{3, 4}, {1, 6}, {5, 2}}) {
    const Tensor a = boxes(first, 30, 0.4), b = boxes(second, 40, 0.5);
    check({a}, [](const List& in) { return List{box_area(in[0])}; });
    check({a, b}, [](const List& in) { return List{box_iou(in[0], in[1])}; });
  }

  const Tensor narrow = roi_align(cast(x, DType::bf16), cast(rois, DType::f32), 2, {.sampling_ratio = 2});
  CHECK(narrow.dtype() == DType::bf16);
  loops_test::check_close(cast(narrow, DType::f64), roi_align(x, rois, 2, {.sampling_ratio = 2}), 0.02);
  const Tensor gradient =
      grad([&](const Tensor& boxes) { return sum(roi_align(x, boxes, 2, {.sampling_ratio = 2})) + sum(boxes); }, rois);
  loops_test::check_close(gradient, ones_like(rois), 0);
  const Tensor whole = from_list<std::int8_t>({{0, 0, 100, 100}});
  CHECK(box_area(whole).dtype() == DType::i32);
  CHECK(box_area(whole).item<std::int32_t>() == 10000);
  CHECK(box_area(cast(whole, DType::f16)).dtype() == DType::f32);
  refused([&] { roi_align(x, rois, 2, {}); }, "[roi_align] sampling_ratio must be positive, it is -1");
  refused([&] { roi_align(x, ones({2, 4}), 2, {.sampling_ratio = 1}); }, "takes floating boxes [K,5]");
  refused([&] { roi_align(x, rois, 0, {.sampling_ratio = 1}); }, "must be positive: 0 x 0 and 1");
  refused([&] { roi_align(x, rois * NAN, 2, {.sampling_ratio = 1}).eval(); }, "an index is out of range [0, 2)");
  refused([&] { roi_align(x, rois, 2, {.sampling_ratio = INT64_MAX}); }, "the count of samples");
  refused([&] { roi_align(x, rois + 1, 2, {.sampling_ratio = 1}).eval(); }, "an index is out of range [0, 2)");
  refused([&] { box_area(ones({2, 3})); }, "[box_area] takes boxes [...,4], they are f32[2,3]");
}

TEST_CASE("nms keeps the boxes that torchvision's keeps, eagerly and in graphs of any count of boxes") {
  std::size_t next = count_of_samples + 9;
  const CompileOptions any_count{.dynamic = true, .on_compile_error = OnFailure::raise};
  const auto alone = compile(
      [](const Tensor& boxes, const Tensor& scores, double threshold) { return nms_mask(boxes, scores, threshold); },
      any_count);
  const auto grouped = compile([](const Tensor& boxes, const Tensor& scores, const Tensor& groups,
                                  double threshold) { return batched_nms_mask(boxes, scores, groups, threshold); },
                               any_count);
  const auto check = [&](const Tensor& kept, std::initializer_list<Tensor> masks, std::int64_t count) {
    const std::size_t number = next++;
    CAPTURE(number);
    golden_test::check_numbers(golden[number], {kept});
    std::vector<double> expected(static_cast<std::size_t>(count));
    for (const double each : golden[number]) expected[static_cast<std::size_t>(each)] = 1;
    for (const Tensor& mask : masks) {
      CHECK(mask.dtype() == DType::boolean);
      golden_test::check_numbers(expected, {mask});
    }
  };
  struct Case {
    std::int64_t count;
    int seed;
    double threshold;
  };
  for (const auto& [count, seed, threshold] : {Case{12, 3, 0.3}, {20, 4, 0.1}, {9, 5, 0.2}}) {
    const Tensor found = boxes(count, seed, 0.4), scores = round(wave({count}, seed + 2) * 4),
                 groups = arange(count) % 2;
    check(nms(found, scores, threshold), {nms_mask(found, scores, threshold), alone(found, scores, threshold)}, count);
    check(batched_nms(found, scores, groups, threshold),
          {batched_nms_mask(found, scores, groups, threshold), grouped(found, scores, groups, threshold)}, count);
  }
  CHECK(next == std::size(golden));
  CHECK(nms(zeros({0, 4}), zeros({0}), 0.5).size(0) == 0);
  const Tensor one = from_list<float>({{0, 0, 1, 1}});
  CHECK(nms(one, ones({1}), 0.5).item<std::int64_t>() == 0);
  refused([&] { nms(one, ones({2}), 0.5); }, "[nms] takes a score for each box: f32[1,4] with scores f32[2]");
  refused([&] { batched_nms(one, ones({1}), ones({1}), 0.5); }, "takes a group, an integer, for each box");
  auto compiled = compile([](const Tensor& boxes, const Tensor& scores) { return nms(boxes, scores, 0.5) * 2; });
  for (int count : {1, 5, 2, 9}) {
    const Tensor corner = uniform({count, 2}, 0, 2), found = concat({corner, corner + 1}, 1), scores = uniform({count});
    const Tensor chosen = compiled(found, scores), expected = nms(found, scores, 0.5) * 2;
    CHECK(chosen.shape() == expected.shape());
    CHECK(all(chosen == expected).item<bool>());
  }
}
