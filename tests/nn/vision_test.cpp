// Functions of images against PyTorch's: results and gradients, compiled and eager.
#include "weft/nn/vision.hpp"
#include "tests/nn/golden_list.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using namespace weft::nn;
using golden_test::wave;
using weft::test::refused;

namespace {

const std::vector<double> golden[] = {
#include "tests/nn/vision_golden.inc"
};
constexpr std::size_t count_of_resizing = 33;

struct Resize {
  UpsampleOptions options;
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const { return {Upsample(options)(inputs[0])}; }
};
template <class Layer>
struct Of {
  Layer layer;
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const { return {layer(inputs[0])}; }
};
template <class Layer>
Of(Layer) -> Of<Layer>;
struct Sample {
  GridSampleOptions options;
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    return {grid_sample(inputs[0], inputs[1], options)};
  }
};
struct Affine {
  std::vector<std::int64_t> size;
  bool align_corners;
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    return {affine_grid(inputs[0], size, align_corners)};
  }
};

}  // namespace

TEST_CASE("interpolate and shuffles give PyTorch's results and gradients") {
  using enum Interpolation;
  std::size_t next = 0;
  const auto check = [&](const Sizes& sizes, auto f) {
    const std::size_t number = next++;
    CAPTURE(number);
    golden_test::check(golden[number], {wave(sizes, 30)}, f);
  };
  const auto resize = [&](const Sizes& sizes, const UpsampleOptions& options) { check(sizes, Resize{options}); };
  resize({2, 3, 5}, {.size = {8}});
  resize({2, 3, 4}, {.scale_factor = {3}});
  resize({1, 2, 5, 6}, {.size = {3, 9}});
  resize({1, 2, 5, 3}, {.scale_factor = {1.5, 2.3}});
  resize({1, 2, 3, 2, 4}, {.size = {2, 4, 5}});
  resize({2, 3, 5}, {.size = {8}, .mode = nearest_exact});
  resize({1, 2, 5, 6}, {.scale_factor = {0.7, 2}, .mode = nearest_exact});
  resize({1, 2, 3, 2, 4}, {.size = {2, 4, 5}, .mode = nearest_exact});
  resize({2, 3, 5}, {.size = {8}, .mode = linear});
  resize({2, 3, 5}, {.size = {3}, .mode = linear, .align_corners = true});
  resize({2, 3, 5}, {.scale_factor = {1.7}, .mode = linear});
  resize({2, 2, 4, 5}, {.size = {6, 3}, .mode = bilinear});
  resize({2, 2, 4, 5}, {.scale_factor = {2}, .mode = bilinear});
  resize({1, 2, 4, 5}, {.size = {7, 9}, .mode = bilinear, .align_corners = true});
  resize({1, 2, 4, 5}, {.size = {1, 5}, .mode = bilinear, .align_corners = true});
  resize({1, 2, 2, 3, 4}, {.size = {3, 2, 6}, .mode = trilinear});
  resize({1, 2, 2, 3, 4}, {.scale_factor = {2, 1, 0.6}, .mode = trilinear});
  resize({1, 1, 2, 3, 4}, {.size = {4, 4, 4}, .mode = trilinear, .align_corners = true});
  resize({2, 2, 4, 5}, {.size = {6, 3}, .mode = bicubic});
  resize({1, 2, 4, 5}, {.scale_factor = {2, 1.3}, .mode = bicubic});
  resize({1, 2, 4, 5}, {.size = {7, 9}, .mode = bicubic, .align_corners = true});
  resize({2, 3, 7}, {.size = {3}, .mode = area});
  resize({1, 2, 4, 5}, {.scale_factor = {0.5}, .mode = area});
  resize({1, 2, 3, 4, 5}, {.size = {2, 2, 7}, .mode = area});
  check({2, 8, 2, 3}, Of{PixelShuffle(2)});
  check({9, 2, 1}, Of{PixelShuffle(3)});
  check({1, 2, 4, 3, 2}, Of{PixelShuffle(2)});
  check({2, 3, 4, 6}, Of{PixelUnshuffle(2)});
  check({1, 6, 3}, Of{PixelUnshuffle(3)});
  check({1, 2, 1, 4, 2}, Of{PixelUnshuffle(2)});
  check({2, 6, 3}, Of{ChannelShuffle(2)});
  check({1, 6, 2, 2}, Of{ChannelShuffle(3)});
  check({2, 4, 2, 1, 2}, Of{ChannelShuffle(4)});
  CHECK(next == count_of_resizing);
}

TEST_CASE("interpolate: layers, other dtypes, sizes of another tensor, and what is refused") {
  using enum Interpolation;
  const Tensor x = wave({1, 2, 4, 6}, 1);
  // Layers are arguments of compiled functions.
  const auto apply = [](const Tensor& x, const UpsamplingNearest2d& nearest, const UpsamplingBilinear2d& bilinear) {
    return std::pair{nearest(x), bilinear(x)};
  };
  const auto layers = compile(apply, {.on_compile_error = OnFailure::raise})(
      x, UpsamplingNearest2d({.scale_factor = {2}}), UpsamplingBilinear2d({.size = {5, 7}}));
  loops_test::check_close(layers.first, interpolate(x, {.size = {8, 12}}), 0);
  loops_test::check_close(layers.second, interpolate(x, {.size = {5, 7}, .mode = bilinear, .align_corners = true}),
                          1e-12);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Interpolation mode : {nearest, nearest_exact, bilinear, bicubic, area}) {
      const Tensor narrow = cast(x, dtype);
      const Tensor y = interpolate(narrow, {.size = {7, 5}, .mode = mode});
      CHECK(y.dtype() == dtype);
      const Tensor wide = interpolate(cast(narrow, DType::f64), {.size = {7, 5}, .mode = mode});
      loops_test::check_close(cast(y, DType::f64), wide, dtype == DType::f32 ? 1e-5 : 0.005);
    }
  const Tensor integers = interpolate(reshape(arange(3), {1, 1, 3}), {.size = {5}});
  loops_test::check_close(integers, reshape(from_list<std::int64_t>({0, 0, 1, 1, 2}), {1, 1, 5}), 0);

  // One compilation for all sizes: the sizes of the result are those of another tensor, or a fraction of the input's.
  const auto like = compile(
      [](const Tensor& x, const Tensor& image) {
        return interpolate(x, {.size = {image.size(2), image.size(3)}, .mode = bilinear}) +
               interpolate(interpolate(x, {.scale_factor = {1.5}}), {.size = {image.size(2), image.size(3)}});
      },
      {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t size : {5, 7, 8}) {
    const Tensor small = wave({1, 2, size, size + 1}, 1);
    const Tensor big = interpolate(small, {.size = {size + 4, size + 6}, .mode = bilinear}) +
                       interpolate(interpolate(small, {.scale_factor = {1.5}}), {.size = {size + 4, size + 6}});
    loops_test::check_close(like(small, zeros({1, 1, size + 4, size + 6})), big, 1e-12);
  }

  // Beside an infinite element those are spoiled that it has a part in, as in PyTorch.
  const auto wider = [](const Tensor& x) { return interpolate(x, {.size = {5}, .mode = linear}); };
  const Tensor infinite = reshape(from_list<float>({1, INFINITY, 3}), {1, 1, 3});
  for (const Tensor& y : {wider(infinite), compile(wider)(infinite), compile(wider, {.dynamic = true})(infinite)}) {
    CHECK(std::isnan(y[0][0][0].item()));
    for (int i = 1; i < 4; ++i) CHECK(y[0][0][i].item() == INFINITY);
    CHECK(y[0][0][4].item() == 3);
  }
  refused([&] { interpolate(x, {}); }, "[interpolate] needs one of size and scale_factor");
  refused([&] { interpolate(x, {.size = {2}, .scale_factor = {2}}); }, "needs one of size and scale_factor");
  refused([&] { interpolate(x, {.size = {2, 2, 2}}); }, "needs a number for each of 2 sizes");
  refused([&] { interpolate(x, {.size = {2}, .mode = linear}); }, "takes [N,C,sizes...] of 1 size in this mode");
  refused([&] { interpolate(x, {.size = {0}}); }, "sizes must be positive: 4 to 0");
  refused([&] { interpolate(x, {.scale_factor = {-1}}); }, "scale_factor must be positive and below 1e9, it is -1");
  refused([&] { interpolate(x, {.scale_factor = {1e300}}); },
          "scale_factor must be positive and below 1e9, it is 1e+300");
  refused([&] { interpolate(x, {.size = {2}, .align_corners = true}); }, "align_corners is for linear");
  refused([&] { interpolate(cast(x, DType::i32), {.size = {2}, .mode = area}); }, "takes a floating tensor");
  refused([&] { pixel_shuffle(x, 2); }, "[pixel_shuffle] 2 x 2 places do not divide 2 channels");
  refused([&] { pixel_shuffle(x, std::int64_t{1} << 32); }, "the factor must be positive, and at most 1048576");
  refused([&] { pixel_unshuffle(x, 3); }, "the factor 3 does not divide 4 x 6");
  refused([&] { channel_shuffle(x, 3); }, "3 groups do not divide 2 channels");
}

TEST_CASE("interpolate to the size that an image has keeps infinite elements, in the one graph of symbolic sizes too") {
  for (const Interpolation mode : {Interpolation::bilinear, Interpolation::bicubic})
    for (const bool antialias : {false, true}) {
      const auto resize = [](const Tensor& x, const Tensor& like, int mode, bool antialias) {
        return interpolate(x, {.size = Sizes{like.size(0), like.size(1)},
                               .mode = static_cast<Interpolation>(mode),
                               .antialias = antialias});
      };
      const auto slope = [](const Tensor& x, const Tensor& like, int mode, bool antialias) {
        return grad([&](const Tensor& x) { return sum(square(decltype(resize){}(x, like, mode, antialias))); }, x);
      };
      const auto compiled = compile(resize, {.dynamic = true, .backend = Backend::eager});
      const auto slopes = compile(slope, {.dynamic = true, .backend = Backend::eager});
      for (const std::int64_t to : {3, 4, 5}) {
        const Tensor image = reshape(cast(arange(16), DType::f32), {1, 1, 4, 4});
        const Tensor x = where(image == 5, -HUGE_VAL, image), like = zeros({to, to});
        const Tensor found = compiled(x, like, static_cast<int>(mode), antialias),
                     expected = resize(x, like, static_cast<int>(mode), antialias);
        CHECK(all((found == expected) | (isnan(found) & isnan(expected))).item<bool>());
        CHECK((to != 4 || all(found == x).item<bool>()));
        loops_test::check_close(slopes(image, like, static_cast<int>(mode), antialias),
                                slope(image, like, static_cast<int>(mode), antialias), 1e-5);
      }
      CHECK(specialization_count(compiled) == 1);
    }
}

TEST_CASE("grid_sample and affine_grid give PyTorch's results and gradients") {
  using enum SampleMode;
  using enum SamplePadding;
  std::size_t next = count_of_resizing;
  const auto sample = [&](GridSampleOptions options, const Sizes& sizes, const Sizes& grid) {
    const std::size_t number = next++;
    CAPTURE(number);
    golden_test::check(golden[number], {wave(sizes, 30), wave(grid, 31) * 3.5}, Sample{options});
  };
  sample({}, {2, 3, 4, 5}, {2, 3, 4, 2});
  sample({.align_corners = true}, {1, 2, 5, 3}, {1, 2, 5, 2});
  sample({.padding_mode = border}, {2, 2, 4, 5}, {2, 3, 3, 2});
  sample({.padding_mode = border, .align_corners = true}, {1, 2, 3, 4}, {1, 4, 3, 2});
  sample({.padding_mode = reflection}, {2, 2, 4, 5}, {2, 3, 3, 2});
  sample({.padding_mode = reflection, .align_corners = true}, {1, 2, 1, 4}, {1, 4, 3, 2});
  sample({.mode = nearest}, {2, 2, 4, 5}, {2, 3, 3, 2});
  sample({.mode = nearest, .padding_mode = border, .align_corners = true}, {1, 2, 3, 4}, {1, 4, 3, 2});
  sample({.mode = nearest, .padding_mode = reflection}, {1, 2, 4, 5}, {1, 3, 5, 2});
  const auto affine = [&](const Sizes& theta, const std::vector<std::int64_t>& size, bool align_corners) {
    const std::size_t number = next++;
    CAPTURE(number);
    golden_test::check(golden[number], {wave(theta, 30)}, Affine{size, align_corners});
  };
  affine({2, 2, 3}, {2, 1, 3, 4}, false);
  affine({2, 2, 3}, {2, 1, 4, 1}, true);
  affine({1, 3, 4}, {1, 2, 2, 3, 4}, false);
  affine({2, 3, 4}, {2, 1, 3, 2, 2}, true);

  // The places of an image under the identity are its elements, in any dtype; far and undefined places are outside.
  const Tensor x = wave({1, 2, 4, 5}, 3), identity = reshape(from_list({1.0, 0.0, 0.0, 0.0, 1.0, 0.0}), {1, 2, 3});
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Tensor same = grid_sample(cast(x, dtype), affine_grid(cast(identity, dtype), {1, 2, 4, 5}));
    CHECK(same.dtype() == dtype);
    loops_test::check_close(cast(same, DType::f64), x, dtype == DType::f64 ? 1e-12 : 0.02);
  }
  const Tensor far = full({1, 1, 1, 2}, 1e30, {DType::f64});
  CHECK(max(abs(grid_sample(x, far, {.mode = nearest}))).item() == 0);
  loops_test::check_close(grid_sample(x, far, {.padding_mode = border}), slice(slice(x, 2, 3), 3, 4), 0);
  const Tensor nowhere = full({1, 1, 1, 2}, std::nan(""), {DType::f64});
  CHECK(std::isfinite(max(grid_sample(x, nowhere, {.padding_mode = border})).item()));
  refused([&] { grid_sample(x, weft::zeros({1, 2, 2, 3}, {DType::f64})); }, "takes a grid [N,H',W',2]");
  refused([&] { grid_sample(x, weft::zeros({1, 2, 2, 2})); }, "takes a grid [N,H',W',2]");
  refused([&] { grid_sample(ones({2, 2}), far); }, "takes a floating image [N,C,H,W], it is f32[2,2]");
  refused([&] { affine_grid(identity, {2, 2, 4, 5}); }, "takes a floating theta [N,2,3] with a size [N,C,H,W]");
}
