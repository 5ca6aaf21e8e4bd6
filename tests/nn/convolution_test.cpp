// Convolutions, transposed ones and pooling against PyTorch's: results and gradients, compiled and eager.
#include "weft/nn/convolution.hpp"
#include "tests/nn/golden_list.hpp"
#include "tests/record/refused.hpp"

using namespace weft;
using namespace weft::nn;
using golden_test::wave;
using weft::test::refused;

namespace {

const std::vector<double> golden[] = {
#include "tests/nn/convolution_golden.inc"
};
std::size_t next = 0;  // the golden file's lines are in the order of the cases below

template <class Layer>
struct WithParameters {
  Layer layer;
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    Layer moved = layer;
    std::size_t at = 1;
    for (auto& parameter : nn::parameters(moved)) parameter.value.tensor() = inputs[at++];
    return {moved(inputs[0])};
  }
};
template <class Layer>
void check(Layer layer, const Sizes& sizes) {
  CAPTURE(next);
  std::vector<Tensor> inputs{wave(sizes, 30)};
  int seed = 0;
  for (const auto& parameter : nn::parameters(layer)) inputs.push_back(wave(parameter.value->shape(), seed++));
  golden_test::check(golden[next++], inputs, WithParameters<Layer>{layer});
}
template <int count>
using Of = ConvLayerOptions<count>;
template <int count>
using Back = ConvTransposeLayerOptions<count>;
constexpr Options wide{DType::f64};

}  // namespace

TEST_CASE("convolutions and pooling give PyTorch's results and gradients") {
  next = 0;
  check(Conv1d(4, 6, 3, {.options = wide}), {2, 4, 7});
  check(Conv1d(4, 6, 3, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2, .bias = false, .options = wide}),
        {2, 4, 9});
  check(Conv1d(2, 3, 4, {.padding = same_padding, .options = wide}), {2, 6});
  check(Conv2d(3, 4, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .options = wide}), {2, 3, 6, 5});
  check(Conv2d(4, 4, 3, {.padding = same_padding, .dilation = {1, 2}, .groups = 4, .options = wide}), {2, 4, 5, 6});
  check(Conv2d(2, 3, 3, {.padding = 1, .padding_mode = Pads::reflect, .options = wide}), {2, 2, 4, 5});
  check(Conv2d(2, 3, {2, 4}, {.padding = same_padding, .padding_mode = Pads::circular, .options = wide}), {2, 4, 5});
  check(Conv3d(2, 3, 2, {.options = wide}), {2, 2, 3, 4, 3});
  check(
      Conv3d(2, 4, {1, 3, 2}, {.stride = {1, 2, 1}, .padding = {0, 1, 1}, .groups = 2, .bias = false, .options = wide}),
      {1, 2, 2, 5, 3});
  check(Conv3d(1, 2, 3, {.padding = 1, .padding_mode = Pads::replicate, .options = wide}), {1, 3, 3, 3});
  check(ConvTranspose1d(3, 4, 3, {.options = wide}), {2, 3, 5});
  check(ConvTranspose1d(4, 6, 3,
                        {.stride = 3, .padding = 2, .output_padding = 1, .groups = 2, .bias = false, .options = wide}),
        {2, 4, 4});
  check(ConvTranspose1d(2, 2, 2, {.padding = 1, .output_padding = 2, .dilation = 3, .options = wide}), {2, 2, 4});
  check(ConvTranspose2d(3, 2, 2, {.stride = 2, .options = wide}), {2, 3, 3, 4});
  check(ConvTranspose2d(
            2, 4, {3, 2},
            {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}, .dilation = {1, 2}, .options = wide}),
        {2, 2, 3, 4});
  check(ConvTranspose2d(4, 4, 3, {.padding = 1, .groups = 4, .options = wide}), {4, 4, 3});
  check(ConvTranspose3d(2, 3, 2, {.options = wide}), {1, 2, 2, 3, 2});
  check(ConvTranspose3d(2, 2, {1, 2, 3},
                        {.stride = {1, 2, 2}, .padding = {0, 0, 1}, .output_padding = {0, 1, 1}, .options = wide}),
        {1, 2, 2, 2, 3});
  check(ConvTranspose3d(2, 2, 2, {.groups = 2, .bias = false, .options = wide}), {2, 2, 2, 2});

  check(MaxPool1d(3), {2, 3, 9});
  check(MaxPool1d(4, {.stride = 3, .padding = 2, .ceil_mode = true}), {3, 10});
  check(MaxPool1d(3, {.stride = 2, .dilation = 2}), {2, 3, 9});
  check(MaxPool2d(3, {.stride = 2, .padding = 1}), {2, 3, 7, 8});
  check(MaxPool2d({2, 3}, {.stride = {2, 1}, .ceil_mode = true}), {2, 2, 5, 6});
  CAPTURE(next);
  const Tensor plateaus = reshape(from_list({1.0, 1.0, 0.0, 2.0, 1.0, 1.0, 2.0, 2.0, 0.0, 0.0, 2.0, 2.0}), {1, 3, 4});
  golden_test::check(golden[next++], {plateaus}, WithParameters<MaxPool2d>{MaxPool2d(2, {.stride = 1})});
  check(MaxPool3d(2), {1, 2, 4, 4, 5});
  check(MaxPool3d({1, 3, 2}, {.stride = 2, .padding = {0, 1, 1}}), {1, 2, 4, 5, 5});
  check(MaxPool3d(2, {.stride = 1, .ceil_mode = true}), {2, 3, 3, 4});
  check(AvgPool1d(3), {2, 3, 9});
  check(AvgPool1d(4, {.stride = 3, .padding = 2, .ceil_mode = true}), {2, 3, 10});
  check(AvgPool1d(3, {.stride = 2, .padding = 1, .count_include_pad = false}), {3, 9});
  check(AvgPool2d(3, {.stride = 2, .padding = 1}), {2, 3, 7, 8});
  check(AvgPool2d({2, 3}, {.stride = {3, 2}, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
        {2, 2, 6, 6});
  check(AvgPool2d(2, {.divisor_override = 3}), {2, 2, 6, 6});
  check(AvgPool3d(2), {1, 2, 4, 4, 5});
  check(AvgPool3d({1, 3, 2}, {.stride = 2, .padding = {0, 1, 1}, .count_include_pad = false}), {1, 2, 4, 5, 5});
  check(AvgPool3d(2, {.stride = 2, .ceil_mode = true}), {2, 3, 3, 4});
  check(AdaptiveAvgPool1d(3), {2, 3, 9});
  check(AdaptiveAvgPool1d(3), {2, 3, 7});
  check(AdaptiveAvgPool2d({1, 3}), {2, 2, 6, 5});
  check(AdaptiveAvgPool2d({3, 9}), {2, 5, 7});
  check(AdaptiveAvgPool3d({2, 2, 3}), {1, 2, 4, 5, 3});
  check(AdaptiveMaxPool1d(3), {2, 3, 9});
  check(AdaptiveMaxPool1d(3), {2, 3, 7});
  check(AdaptiveMaxPool2d({1, 3}), {2, 2, 6, 5});
  check(AdaptiveMaxPool2d({3, 9}), {2, 5, 7});
  check(AdaptiveMaxPool3d({2, 2, 3}), {1, 2, 4, 5, 3});
  CHECK(next == std::size(golden));
}

TEST_CASE("convolutions and pooling: initial values, other dtypes, and what is refused") {
  Conv2d layer(3, 8, 5);
  CHECK(max(abs(layer.weight)).item() <= 1 / std::sqrt(75.0));
  CHECK(max(abs(layer.bias)).item() <= 1 / std::sqrt(75.0));
  CHECK(Conv2d(3, 8, 5, {.bias = false}).bias.frozen);
  const Tensor x = wave({2, 3, 8, 8}, 1);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    loops_test::check_close(cast(avg_pool2d(cast(x, dtype), 3), DType::f64), avg_pool2d(x, 3), 0.01);
    loops_test::check_close(cast(max_pool2d(cast(x, dtype), 3), DType::f64), max_pool2d(x, 3), 0.01);
  }
  const Tensor integers =
      max_pool1d(reshape(from_list<std::int64_t>({-5, -7, -3}), {1, 3}), 2, {.stride = 1, .padding = 1});
  loops_test::check_close(integers, reshape(from_list<std::int64_t>({-5, -5, -3, -3}), {1, 4}), 0);
  CHECK(std::isnan(max(max_pool1d(reshape(from_list({1.0, std::nan(""), 2.0}), {1, 3}), 2, {.stride = 1})).item()));
  // One element that is infinite spoils the windows that hold it, no others.
  const Tensor spoiled = adaptive_avg_pool1d(reshape(from_list<float>({INFINITY, 1, 2, 3, 4, 5, 6}), {1, 7}), 3);
  loops_test::check_close(narrow(spoiled, 1, 1, 2), reshape(from_list({3.0f, 5.0f}), {1, 2}), 1e-6);
  // Images of many sizes, which the result's divides or not, are one compilation after the first.
  auto to_three = compile([](const Tensor& x) { return adaptive_max_pool2d(x, 3) + adaptive_avg_pool2d(x, 3); });
  for (const std::int64_t rows : {9, 7, 12, 2, 3, 8})
    for (const std::int64_t columns : {6, 11, 3}) {
      const Tensor image = sin(reshape(arange(2 * rows * columns) * 1.0, {2, rows, columns}));
      loops_test::check_close(to_three(image), adaptive_max_pool2d(image, 3) + adaptive_avg_pool2d(image, 3), 1e-6);
    }
  CHECK(specialization_count(to_three) <= 3);
  // In windows of nothing but -inf the gradient goes to the first element, not to padding, as in PyTorch.
  const auto pooled = [](const Tensor& x) { return sum(max_pool1d(x, 2, {.padding = 1})); };
  const Tensor lowest = reshape(from_list<float>({1, -INFINITY, -INFINITY, -INFINITY}), {1, 4});
  loops_test::check_close(grad(pooled, lowest), reshape(from_list<float>({1, 1, 0, 1}), {1, 4}), 0);
  const auto gradient = [](const Tensor& x) {
    return grad([](const Tensor& x) { return sum(max_pool2d(x, 3, {.stride = 2, .padding = 1})); }, x);
  };
  const Tensor corners = from_list<float>({{1, 1, 0}, {1, 1, 0}, {0, 0, 0}}), square = full({1, 3, 3}, -INFINITY);
  for (const Tensor& found : {gradient(square), compile(gradient, {.dynamic = true})(square)})
    loops_test::check_close(found, unsqueeze(corners, 0), 0);
  // An image that is padding alone has a gradient of no elements.
  const auto over_padding = [](const Tensor& x, const Tensor& w) {
    return grad([](const std::vector<Tensor>& p) { return sum(conv1d(p[0], p[1], {.stride = 2, .padding = 1})); },
                std::vector{x, w});
  };
  const Tensor empty = ones({3, 1, 0}), pair = ones({4, 1, 2});
  for (const auto& found : {over_padding(empty, pair), compile(over_padding)(empty, pair)}) {
    CHECK(found[0].shape() == empty.shape());
    loops_test::check_close(found[1], zeros({4, 1, 2}), 0);
  }
  const ConvTranspose1dOptions far{.stride = 3, .padding = 1, .output_padding = 2};
  loops_test::check_close(conv_transpose1d(ones({1, 1, 1}), ones({1, 1, 1}), far), zeros({1, 1, 1}), 0);
  // A window beyond the end is one window under ceil_mode.
  const Tensor two = reshape(from_list<float>({1, 2}), {1, 2});
  CHECK(max_pool1d(two, 3, {.stride = 2, .ceil_mode = true}).item() == 2);
  CHECK(avg_pool1d(two, 3, {.stride = 2, .ceil_mode = true}).item() == 1.5);
  refused([&] { max_pool1d(two, 3, {.stride = 2}); }, "a window of 3 does not fit into 2 elements");
  refused([&] { max_pool1d(two, 2, {.dilation = INT64_MAX}); }, "does not fit into 2 elements");
  refused([&] { Conv2d(3, 8, 3, {.groups = 2}); }, "2 groups do not divide 8 and 3 channels");
  refused([&] { Conv2d(0, 8, 3); }, "sizes must be positive");
  refused([&] { Conv2d(3, 8, 3, {.stride = 2, .padding = same_padding}); }, "needs a stride of 1, it is 2");
  refused([&] { layer(ones({2, 4, 8, 8})); }, "[conv] the input's channels are not those of the weight");
  refused([&] { conv2d(x, ones({4, 3, 3, 3}), ones({5})); }, "needs a bias of 4 channels");
  refused([&] { conv2d(x, ones({4, 3, 3, 3}), {.stride = 2, .padding = same_padding}); }, "needs a stride of 1");
  refused([&] { conv_transpose2d(x, ones({4, 3, 3, 3})); }, "the input has 3 channels, the weight takes 4");
  const ConvTranspose2dOptions beyond{.stride = 2, .output_padding = 2};
  refused([&] { conv_transpose2d(x, ones({3, 3, 3, 3}), beyond); }, "output_padding must be less");
  refused([&] { max_pool2d(x, 9); }, "a window of 9 does not fit into 8 elements");
  refused([&] { max_pool2d(x, 3, {.padding = 2}); }, "padding must be at most half");
  refused([&] { avg_pool1d(ones({4}), 2); }, "takes numbers [N,C,sizes...]");
  refused([&] { max_pool1d(ones({0, 10}), 2); }, "[max_pool1d] of no elements along axis 0: f32[0,10]");
  refused([&] { max_pool1d(ones({2, 0, 10}), 2); }, "[max_pool1d] of no elements along axis 1: f32[2,0,10]");
  refused([&] { max_pool1d(ones({2, 2, 0}), 2, {.padding = 1}); }, "of no elements along axis 2: f32[2,2,0]");
  refused([&] { max_pool2d(ones({0, 4, 4}), 2); }, "[max_pool2d] of no elements along axis 0: f32[0,4,4]");
  refused([&] { max_pool3d(ones({0, 1, 2, 10}), 1); }, "[max_pool3d] of no elements along axis 0: f32[0,1,2,10]");
  refused([&] { avg_pool2d(ones({1, 2, 4, 0}), 2, {.padding = 1}); }, "[avg_pool2d] of no elements along axis 3");
  refused([&] { avg_pool1d(ones({0, 10}), 2); }, "[avg_pool1d] of no elements along axis 0");
  refused([&] { adaptive_avg_pool1d(ones({2, 3, 0}), 2); }, "[adaptive_avg_pool1d] of no elements along axis 2");
  refused([&] { adaptive_max_pool2d(ones({3, 0, 4}), 2); }, "[adaptive_max_pool2d] of no elements along axis 1");
  refused([&] { adaptive_max_pool1d(ones({2, 0, 4}), 2); }, "[adaptive_max_pool1d] of no elements along axis 1");
  CHECK(max_pool1d(ones({0, 2, 10}), 2).shape() == Shape::of(0, 2, 5));
  CHECK(avg_pool2d(ones({0, 2, 4, 4}), 2).shape() == Shape::of(0, 2, 2, 2));
  CHECK(adaptive_avg_pool1d(ones({2, 0, 10}), 2).shape() == Shape::of(2, 0, 2));
  CHECK(adaptive_max_pool1d(ones({0, 10}), 2).shape() == Shape::of(0, 2));
  refused([&] { adaptive_avg_pool2d(x, 0); }, "sizes must be positive");
}

TEST_CASE("pooling with ceil_mode serves all sizes from one specialization, with the bits of each") {
  const auto pooled = [](const Tensor& x) {
    const Tensor once = max_pool2d(x, 2, {.ceil_mode = true}),
                 twice = max_pool2d(once, 3, {.stride = 2, .padding = 1, .ceil_mode = true});
    const Tensor mean = avg_pool2d(once, {3, 2}, {.stride = {2, 3}, .ceil_mode = true});
    return std::tuple{twice, mean,
                      avg_pool2d(x, 4, {.stride = 3, .padding = 2, .ceil_mode = true, .count_include_pad = false})};
  };
  const auto f = compile(pooled, {.dynamic = true, .on_recompile_limit = OnFailure::raise, .recompile_limit = 0});
  const auto gradient = [](const Tensor& x) {
    return grad(
        [](const Tensor& x) {
          return sum(square(max_pool2d(x, 2, {.stride = 3, .ceil_mode = true}))) +
                 sum(square(avg_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true})));
        },
        x);
  };
  const auto g = compile(gradient, {.dynamic = true, .on_recompile_limit = OnFailure::raise, .recompile_limit = 0});
  Generator generator(3);
  for (std::int64_t rows = 9; rows < 15; ++rows)
    for (std::int64_t columns = 7; columns < 12; ++columns) {
      if (rows == columns) continue;
      CAPTURE(rows);
      CAPTURE(columns);
      const Tensor x = normal({1, 2, rows, columns}, 0, 1, generator);
      const auto [twice, mean, padded] = f(x);
      const auto [eager_twice, eager_mean, eager_padded] = pooled(x);
      for (const auto& [found, wanted] :
           {std::pair{twice, eager_twice}, {mean, eager_mean}, {padded, eager_padded}, {g(x), gradient(x)}}) {
        REQUIRE(found.shape() == wanted.shape());
        CHECK(all(found == wanted).item() == 1);
      }
    }
  CHECK(specialization_count(f) == 1);
  CHECK(specialization_count(g) == 1);
}

TEST_CASE("sizes of layers are lists too, with and without options") {
  CHECK(MaxPool2d({2, 3}).kernel[1] == 3);
  CHECK(MaxPool3d({2, 3, 4}).kernel[0] == 2);
  CHECK(AvgPool2d({std::int64_t{2}, std::int64_t{3}}).kernel[0] == 2);
  CHECK(AvgPool2d({2, 3}, {.stride = 1}).kernel[1] == 3);
  CHECK(MaxPool2d({2, 3})(zeros({1, 6, 6})).shape() == Shape::of(1, 3, 2));
  CHECK(AdaptiveAvgPool1d({2})(zeros({1, 6})).shape() == Shape::of(1, 2));
  CHECK(AdaptiveMaxPool1d({2}).sizes[0] == 2);
  CHECK(AdaptiveAvgPool2d({2, 3}).sizes[1] == 3);
  CHECK(AdaptiveMaxPool3d({2, 3, 4}).sizes[2] == 4);
  CHECK(MaxUnpool1d({2}).kernel[0] == 2);
  CHECK(MaxUnpool2d({2, 3}, {.stride = 1}).kernel[1] == 3);
  CHECK(Unfold({2, 3}).kernel[1] == 3);
  refused([] { AdaptiveAvgPool2d({2, -3}); }, "[AdaptiveAvgPool2d]");
  refused([] { AvgPool2d({2, -3}); }, "[AvgPool2d] kernel must be positive, it is -3");
}

TEST_CASE("convolutions and pooling: options that are none they can have are refused when the layer is made") {
  refused([] { Conv2d(3, 8, 3, {.stride = 0}); }, "[conv] stride must be positive, it is 0");
  refused([] { Conv2d(3, 8, 3, {.stride = {1, -2}}); }, "[conv] stride must be positive, it is -2");
  refused([] { Conv2d(3, 8, 3, {.padding = -1}); }, "[conv] padding must not be negative, it is -1");
  refused([] { Conv2d(3, 8, 3, {.dilation = 0}); }, "[conv] dilation must be positive, it is 0");
  refused([] { ConvTranspose2d(3, 8, 3, {.stride = 0}); }, "[conv_transpose] stride must be positive, it is 0");
  refused([] { ConvTranspose2d(3, 8, 3, {.padding = -1}); }, "[conv_transpose] padding must not be negative");
  refused([] { ConvTranspose2d(3, 8, 3, {.output_padding = 1}); }, "output_padding must be less than the stride");
  refused([] { ConvTranspose2d(3, 8, 3, {.dilation = 0}); }, "[conv_transpose] dilation must be positive");
  refused([] { MaxPool2d(0); }, "[MaxPool2d] kernel must be positive, it is 0");
  refused([] { MaxPool2d(2, {.stride = -1}); }, "[MaxPool2d] stride must not be negative, it is -1");
  refused([] { MaxPool2d(2, {.padding = 2}); }, "[MaxPool2d] padding must be at most half of the kernel's 2, it is 2");
  refused([] { MaxPool1d(2, {.dilation = 0}); }, "[MaxPool1d] dilation must be positive, it is 0");
  refused([] { AvgPool3d(2, {.padding = -1}); }, "[AvgPool3d] padding must not be negative, it is -1");
  refused([] { AvgPool2d(-2); }, "[AvgPool2d] kernel must be positive, it is -2");
  refused([] { AdaptiveAvgPool2d(0); }, "[AdaptiveAvgPool2d] sizes must be positive, it is 0");
  refused([] { AdaptiveMaxPool1d(-1); }, "[AdaptiveMaxPool1d] sizes must be positive, it is -1");
  const Tensor x = ones({2, 3, 8, 8}), weight = ones({3, 3, 3, 3});
  refused([&] { conv2d(x, weight, {.stride = 0}); }, "[conv2d] stride must be positive, it is 0");
  refused([&] { conv2d(x, weight, {.padding = -1}); }, "[conv2d] padding must not be negative, it is -1");
  refused([&] { conv_transpose2d(x, weight, {.dilation = 0}); }, "[conv_transpose2d] dilation must be positive");
  refused([&] { max_pool2d(x, 2, {.stride = -1}); }, "[max_pool2d] stride must not be negative, it is -1");
}
