// Convolutions and their gradients on a device against the reference, by cuDNN where it is found and generated. Skipped
// without a GPU.
#include <doctest/doctest.h>

#include "base/options.hpp"
#include "pipeline.hpp"
#include "runtime/cuda/device.hpp"
#include "tests/cuda/support.hpp"
#include "tests/providers/convolution_support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace weft::test;
using cuda_test::a_device;

namespace {

// The results, compiled as one function, on the device.
std::vector<std::vector<float>> run_on_device(const RandomConvolution& it, const std::vector<Literal>& operands) {
  const std::shared_ptr<const Executable> executable = compile_graph(it.graph(Device::cuda()), {});
  std::vector<Tensor> inputs, outputs;
  std::vector<void*> arguments, results;
  for (const Literal& operand : operands) {
    const std::vector<float> numbers(operand.reals.begin(), operand.reals.end());
    inputs.push_back(to(from_span(std::span<const float>(numbers), operand.type.shape), Device::cuda()).eval());
    arguments.push_back(inputs.back().node()->storage->data);
  }
  for (const Shape& shape : {it.output, it.input, it.weight}) {
    outputs.push_back(zeros(Sizes(shape), {DType::f32, Device::cuda()}).eval());
    results.push_back(outputs.back().node()->storage->data);
  }
  runtime::cuda::synchronize(Device::cuda());
  runtime::run(executable->plan, arguments, results, {});
  runtime::cuda::synchronize(Device::cuda());
  std::vector<std::vector<float>> values;
  for (const Tensor& output : outputs) {
    const View<const float> view = output.data<float>();
    values.emplace_back(view.begin(), view.end());
  }
  return values;
}

void check_on_device(int count, std::uint64_t seed, DType dtype) {
  const ProcessOptions before = options();
  for (int i = 0; i < count; ++i) {
    const RandomConvolution it(seed + static_cast<std::uint64_t>(i), dtype);
    const std::vector<Literal> operands = random_operands(it, seed);
    const Allowed allowed(it, operands, 0x1p-17);  // the library may transform tiles and back
    CAPTURE(it.text());
    for (const bool library : {true, false}) {
      CAPTURE(library);
      options().cudnn = library && before.cudnn;
      CHECK(allowed.miss(run_on_device(it, operands)) == "");
    }
  }
  options() = before;
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("random convolutions and their gradients on a device: by cuDNN = generated = reference") {
  check_on_device(60, 0, DType::f32);
}

TEST_CASE("convolutions of 16-bit floats and of f64 on a device") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) check_on_device(8, 300, dtype);
}

TEST_CASE("a plan with a convolution that is replayed as one piece convolves what is there then") {
  Generator rng(9);
  const Tensor weight = normal({8, 8, 3, 3}, 0, 1, rng), there = to(weight, Device::cuda()).eval();
  static constexpr auto f = [](const Tensor& image, const Tensor& kernel) {
    const Tensor first = relu(conv2d(softmax(image, 3), kernel, {.padding = 1}));
    return softmax(conv2d(first, kernel, {.padding = 1}), 1);
  };
  Tensor state = to(normal({2, 8, 12, 12}, 0, 1, rng), Device::cuda()).eval(), host = to(state, Device::cpu());
  auto step = compile([](Tensor& x, const Tensor& kernel) { x = f(x, kernel) * 3 - x; },
                      {.on_compile_error = OnFailure::raise});
  for (int call = 0; call < 8; ++call) {  // the same memory, other contents
    step(state, there);
    host = f(host, weight) * 3 - host;
    CAPTURE(call);
    CHECK(amax(abs(to(state, Device::cpu()) - host)).item() <= 1e-3);
  }
}

TEST_CASE("conv2d on a device, eagerly and compiled, has the numbers of the host") {
  Generator rng(4);
  const Tensor x = normal({3, 8, 17, 15}, 0, 1, rng), weight = normal({12, 4, 3, 3}, 0, 1, rng);
  const auto f = [](const Tensor& image, const Tensor& kernel) {
    return conv2d(image, kernel, {.stride = 2, .padding = 1, .groups = 2});
  };
  const Tensor expected = f(x, weight), there = to(x, Device::cuda()), kernel = to(weight, Device::cuda());
  auto compiled = compile(f, {.on_compile_error = OnFailure::raise});
  for (const Tensor& found : {f(there, kernel), compiled(there, kernel)})
    CHECK(amax(abs(to(found, Device::cpu()) - expected)).item() <= 1e-5 * amax(abs(expected)).item());
}

TEST_CASE("a network of 16-bit convolutions, whose images lie with their channels last, has the numbers of the host") {
  Generator rng(12);
  const auto weights_of = [&](std::int64_t out, std::int64_t in, std::int64_t size) {
    return normal({out, in, size, size}, 0, 1 / std::sqrt(double(in * size * size)), rng);
  };
  const Tensor first = weights_of(16, 3, 3), a = weights_of(24, 16, 3), b = weights_of(16, 24, 1),
               c = weights_of(32, 16, 5), bias = normal({24}, 0, 1, rng);
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t side : {17, 32}) {
      CAPTURE(info(dtype).name);
      CAPTURE(side);
      const Tensor x = normal({3, 3, side, side}, 0, 1, rng);
      static constexpr auto f = [](const Tensor& image, const std::vector<Tensor>& w) {
        const Tensor y = max_pool2d(relu(conv2d(image, w[0], {.padding = 1})), 3, {.stride = 2, .padding = 1});
        const Tensor z = relu(conv2d(y, w[1], w[4], {.padding = 1}));
        const Tensor sum = relu(conv2d(z, w[2]) + y);
        return std::pair(conv2d(sum, w[3], {.stride = 2, .padding = 2}), mean(sum, {2, 3}));
      };
      const std::vector<Tensor> weights{first, a, b, c, bias};
      const auto expected = f(x, weights);
      auto compiled = compile(f, {.on_compile_error = OnFailure::raise});
      std::vector<Tensor> there;
      for (const Tensor& w : weights) there.push_back(to(cast(w, dtype), Device::cuda()).eval());
      const auto found = compiled(to(cast(x, dtype), Device::cuda()).eval(), there);
      for (const auto& [ours, theirs] :
           {std::pair(found.first, expected.first), std::pair(found.second, expected.second)}) {
        const Tensor numbers = cast(to(ours, Device::cpu()), DType::f32);
        CHECK(amax(abs(numbers - theirs)).item() <= 0.03 * amax(abs(theirs)).item());
        CHECK(mean(abs(numbers - theirs)).item() <= 0.01 * mean(abs(theirs)).item());
      }
    }
}

namespace {

// Numbers of 16 bits against those of f32, as norms.
void check_near(const Tensor& ours, const Tensor& theirs, double most) {
  const Tensor numbers = cast(to(ours, Device::cpu()), DType::f32);
  CHECK(sqrt(sum(square(numbers - theirs))).item() <= most * sqrt(sum(square(theirs))).item());
}

struct Weights {
  std::vector<Tensor> host, device;
  Weights(std::initializer_list<Shape> shapes, DType dtype, Generator& rng) {
    for (const Shape& shape : shapes) {
      const double depth = double((shape[1] * shape[2] * shape[3]).constant());
      const Tensor w = cast(normal(Sizes(shape), 0, 1.4 / std::sqrt(depth), rng), dtype).eval();
      host.push_back(cast(w, DType::f32).eval());
      device.push_back(to(w, Device::cuda()).eval());
    }
  }
};

}  // namespace

TEST_CASE("gradients of a network of 16-bit convolutions, with their channels last, have the numbers of the host") {
  static constexpr auto gradients = [](const Tensor& image, const std::vector<Tensor>& weights) {
    const auto loss = [&](const std::vector<Tensor>& w) {
      // Sums by channel, over more elements than a block takes.
      const auto normalized = [](const Tensor& x) {
        const Tensor wide = cast(x, DType::f32), centered = wide - mean(wide, {0, 2, 3}, true);
        return cast(centered * rsqrt(mean(square(centered), {0, 2, 3}, true) + 1e-5), x.dtype());
      };
      Tensor y = relu(normalized(conv2d(image, w[0], {.stride = 2, .padding = 1})));
      y = relu(conv2d(y, w[1]));
      y = relu(normalized(conv2d(y, w[2], {.padding = 1})) + y);
      return mean(square(mean(cast(conv2d(y, w[3], {.stride = 2}), DType::f32), {2, 3}) + 1));
    };
    return grad(loss, weights);
  };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(info(dtype).name);
    Generator rng(13);
    const Weights w({Shape::of(16, 3, 3, 3), Shape::of(32, 16, 1, 1), Shape::of(32, 32, 3, 3), Shape::of(64, 32, 1, 1)},
                    dtype, rng);
    const Tensor x = cast(normal({3, 3, 62, 58}, 0, 1, rng), dtype).eval();
    auto compiled = compile(gradients, {.on_compile_error = OnFailure::raise});
    const Tensor image = to(x, Device::cuda()).eval();
    const std::vector<Tensor> expected = gradients(cast(x, DType::f32), w.host), found = compiled(image, w.device);
    const std::vector<Tensor> again = compiled(image, w.device);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      check_near(found[i], expected[i], 0.05);
      CHECK(all(found[i] == again[i]).item<bool>());  // the same bits
    }
  }
}

TEST_CASE("depthwise convolutions of 16-bit images with their channels last have the numbers of the host") {
  static constexpr auto network = [](const Tensor& image, const std::vector<Tensor>& w) {
    const std::int64_t c = w[0].size(0).constant();
    Tensor y = relu(conv2d(image, w[0]));
    y = relu(conv2d(y, w[1], {.padding = 1, .groups = c}));
    y = relu(conv2d(y, w[2], {.stride = 2, .padding = 2, .groups = c}));
    y = relu(conv2d(y, w[3], {.stride = 2, .padding = 1, .groups = c}));
    return conv2d(relu(conv2d(y, w[4], {.padding = {2, 0}, .groups = c})), w[5]);
  };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t channels : {8, 24, 144, 240})
      for (const std::int64_t side : {9, 28}) {
        CAPTURE(info(dtype).name);
        CAPTURE(channels);
        CAPTURE(side);
        Generator rng(14);
        const std::int64_t c = channels;
        const Weights w({Shape::of(c, 8, 1, 1), Shape::of(c, 1, 3, 3), Shape::of(c, 1, 5, 5), Shape::of(c, 1, 3, 3),
                         Shape::of(c, 1, 5, 1), Shape::of(16, c, 1, 1)},
                        dtype, rng);
        const Tensor x = cast(normal({3, 8, side, side + 3}, 0, 1, rng), dtype).eval();
        auto compiled = compile(network, {.on_compile_error = OnFailure::raise});
        check_near(compiled(to(x, Device::cuda()).eval(), w.device), network(cast(x, DType::f32), w.host), 0.03);
      }
}

TEST_SUITE_END();
