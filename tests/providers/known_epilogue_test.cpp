// Which pointwise kernels are what cuBLASLt does at the end of a product: those that the schedule makes of GELU by tanh
// and of its gradient, with a bias and without; and none of the others. The same of what cuDNN does with the sums of a
// convolution.
#include "providers/known_epilogue.hpp"

#include <doctest/doctest.h>

#include "tests/schedule/traced.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace weft::test;
using providers::KnownEpilogue, runtime::cuda::Epilogue;

namespace {

// Of the one kernel of `f` over these operands; `ask` is given the kernel and where an operand is among its buffers.
template <class F, class Ask>
auto asked(F f, const std::vector<Shape>& shapes, Ask ask) {
  Traced traced;
  std::vector<Tensor> operands;
  for (const Shape& shape : shapes) operands.push_back(traced.input(DType::bf16, shape));
  const Schedule schedule = traced.schedule({f(operands)});
  REQUIRE(schedule.steps.size() == 1);
  const loop::Kernel* const kernel = schedule.steps[0].payload->kernel();
  REQUIRE(kernel);
  return ask(*kernel, [&](int operand) {
    for (std::size_t i = 0; i < kernel->buffers.size(); ++i) {
      const ScheduleBuffer& buffer = schedule.buffers[static_cast<std::size_t>(kernel->buffers[i].value)];
      if (buffer.kind == ScheduleBuffer::Kind::argument && buffer.index == operand) return static_cast<int>(i);
    }
    return -1;
  });
}
// The first operand takes the place of the product.
template <class F>
std::optional<KnownEpilogue> known(F f, bool keeps, std::vector<Shape> shapes) {
  return asked(f, shapes, [&](const loop::Kernel& kernel, const auto& buffer_of) {
    REQUIRE(buffer_of(0) >= 0);
    return providers::known_epilogue(kernel, buffer_of(0), 64 * 96, 96, keeps);
  });
}
// Which of the first two operands gates the other; -1: neither.
template <class F>
int gate(F f, std::vector<Shape> shapes) {
  return asked(f, shapes, [&](const loop::Kernel& kernel, const auto& buffer_of) {
    const auto found = providers::known_gate(kernel, buffer_of(0), buffer_of(1), 64 * 96);
    return !found ? -1 : found->gate == buffer_of(0) ? 0 : 1;
  });
}
using Operands = std::vector<Tensor>;
const Shape matrix = Shape::of(64, 96), row = Shape::of(96);

}  // namespace

TEST_CASE("GELU by tanh after a product, with a bias or kept, and its gradient are the library's") {
  const auto activation = [](const Operands& x) { return gelu(x[0], Gelu::tanh); };
  const auto found = known(activation, false, {matrix});
  REQUIRE(found);
  CHECK(found->function == Epilogue::gelu);
  CHECK(found->bias == -1);
  CHECK(known(activation, true, {matrix})->function == Epilogue::gelu_kept);
  const auto biased = [](const Operands& x) { return gelu(x[0] + x[1], Gelu::tanh); };
  const auto with_bias = known(biased, false, {matrix, row});
  REQUIRE(with_bias);
  CHECK(with_bias->bias >= 0);
  CHECK(!known(biased, true, {matrix, row}));  // the library would keep the sum
  const auto gradient = [](const Operands& x) {
    return weft::grad([&](const Tensor& of) { return sum(cast(gelu(of, Gelu::tanh) * x[0], DType::f32)); }, x[1]);
  };
  const auto slope = known(gradient, false, {matrix, matrix});
  REQUIRE(slope);
  CHECK(slope->function == Epilogue::gelu_gradient);
  CHECK(slope->aux >= 0);
}

TEST_CASE("other functions after a product are not the library's") {
  CHECK(!known([](const Operands& x) { return gelu(x[0]); }, false, {matrix}));
  CHECK(!known([](const Operands& x) { return relu(x[0]); }, false, {matrix}));
  CHECK(!known([](const Operands& x) { return silu(x[0]); }, false, {matrix}));
  CHECK(!known([](const Operands& x) { return x[0] + x[1]; }, false, {matrix, matrix}));
  CHECK(!known([](const Operands& x) { return gelu(x[0], Gelu::tanh) + x[1]; }, false, {matrix, matrix}));
  CHECK(!known([](const Operands& x) { return gelu(x[0], Gelu::tanh) * x[1]; }, false, {matrix, row}));
  CHECK(!known([](const Operands& x) { return gelu(x[0], Gelu::tanh) * 2; }, false, {matrix}));
}

TEST_CASE("silu of a product times another one is what a gate is, and nothing else is") {
  CHECK(gate([](const Operands& x) { return silu(x[0]) * x[1]; }, {matrix, matrix}) == 0);
  CHECK(gate([](const Operands& x) { return x[0] * silu(x[1]); }, {matrix, matrix}) == 1);
  CHECK(gate([](const Operands& x) { return x[0] * sigmoid(x[0]) * x[1]; }, {matrix, matrix}) == 0);
  CHECK(gate([](const Operands& x) { return sigmoid(x[0]) * x[1]; }, {matrix, matrix}) == -1);
  CHECK(gate([](const Operands& x) { return gelu(x[0], Gelu::tanh) * x[1]; }, {matrix, matrix}) == -1);
  CHECK(gate([](const Operands& x) { return silu(x[0]) + x[1]; }, {matrix, matrix}) == -1);
  CHECK(gate([](const Operands& x) { return silu(x[0]) * x[1] * 2; }, {matrix, matrix}) == -1);
  CHECK(gate([](const Operands& x) { return silu(x[0]) * x[1]; }, {matrix, row}) == -1);
  CHECK(gate([](const Operands& x) { return silu(x[0]) * x[1] + x[2]; }, {matrix, matrix, matrix}) == -1);
}

namespace {

using runtime::cuda::Activation;

// The first operand takes the place of a convolution's image, of 64 positions and 96 channels. Vectors are f32 or bf16.
template <class F>
std::optional<providers::KnownImageEpilogue> of_image(F f, std::vector<Shape> shapes) {
  return asked(f, shapes, [&](const loop::Kernel& kernel, const auto& buffer_of) {
    REQUIRE(buffer_of(0) >= 0);
    return providers::known_image_epilogue(kernel, buffer_of(0), 64 * 96, 96);
  });
}
template <class F>
std::optional<Activation> activation(F f, std::vector<Shape> shapes) {
  const auto found = of_image(f, std::move(shapes));
  return found ? std::optional(found->epilogue.activation) : std::nullopt;
}
Tensor wide(const Tensor& x) { return cast(x, DType::f32); }

}  // namespace

TEST_CASE("sums of an image, of numbers a channel and of another image, and their activation are the library's") {
  CHECK(activation([](const Operands& x) { return relu(x[0]); }, {matrix}) == Activation::relu);
  CHECK(activation([](const Operands& x) { return silu(x[0]); }, {matrix}) == Activation::silu);
  CHECK(activation([](const Operands& x) { return gelu(x[0]); }, {matrix}) == Activation::gelu);
  CHECK(activation([](const Operands& x) { return gelu(x[0], Gelu::tanh); }, {matrix}) == Activation::gelu_tanh);
  CHECK(activation([](const Operands& x) { return x[0] + x[1]; }, {matrix, matrix}) == Activation::none);
  CHECK(activation([](const Operands& x) { return silu(x[0] + x[1]); }, {matrix, row}) == Activation::silu);
  const auto block = [](const Operands& x) { return relu(x[2] + cast(wide(x[0]) + wide(x[1]) * 2.0, DType::bf16)); };
  CHECK(!of_image(block, {matrix, row, matrix}));  // a number times another one is none that is added
  const auto found = of_image([](const Operands& x) { return relu(x[2] + (x[0] + x[1])); }, {matrix, row, matrix});
  REQUIRE(found);
  CHECK(found->epilogue.activation == Activation::relu);
  CHECK(found->epilogue.has_image);
  CHECK(found->epilogue.channels == std::vector<DType>{DType::bf16});
  CHECK(found->added.size() == 2);
  const auto two =
      of_image([](const Operands& x) { return relu((x[2] + x[3]) + (x[0] + x[1])); }, {matrix, row, matrix, row});
  REQUIRE(two);
  CHECK(two->epilogue.channels.size() == 2);
}

TEST_CASE("other functions after a convolution are not the library's") {
  CHECK(!of_image([](const Operands& x) { return relu(x[0]) + x[1]; }, {matrix, matrix}));
  CHECK(!of_image([](const Operands& x) { return relu(x[0] - x[1]); }, {matrix, matrix}));
  CHECK(!of_image([](const Operands& x) { return relu(x[0] * x[1]); }, {matrix, row}));
  CHECK(!of_image([](const Operands& x) { return relu(x[0] + x[0]); }, {matrix}));
  CHECK(!of_image([](const Operands& x) { return relu(x[0] + x[1] + x[2]); }, {matrix, matrix, matrix}));
  CHECK(!of_image([](const Operands& x) { return relu(x[0] + 1.0); }, {matrix}));
  CHECK(!of_image([](const Operands& x) { return maximum(x[0], 1e-7); }, {matrix}));
  CHECK(!of_image([](const Operands& x) { return tanh(x[0]); }, {matrix}));
  CHECK(!of_image([](const Operands& x) { return relu(x[0] + reshape(x[1], {64, 1})); }, {matrix, Shape::of(64)}));
}
