// Random convolutions: what they are, as functions to record, and what the reference makes of them. In: a seed. Out:
// the value, the input's gradient and the weight's, of inputs that lie in memory in some way.
#pragma once
#include <cmath>
#include <random>
#include <vector>

#include "interpret/reference.hpp"
#include "record/record.hpp"

namespace weft::test {

struct RandomConvolution {
  // How an operand lies: as it is, with its last axes swapped, every second element of a longer axis, backwards along
  // the last axis, or one item repeated.
  enum class Lies { plain, swapped, spread, backwards, repeated };
  DType dtype = DType::f32;
  Shape input, weight, output;
  Convolution attributes;
  Lies lies[3] = {};

  explicit RandomConvolution(std::uint64_t seed, DType dtype = DType::f32) : dtype(dtype) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    const auto axes = static_cast<int>(pick(1, 3));
    Convolution& c = attributes;
    c.groups = random() % 3 == 0 ? pick(2, 6) : 1;
    const bool depthwise = c.groups > 1 && random() % 2;
    const std::int64_t inputs = depthwise ? 1 : pick(1, 5), outputs = depthwise ? pick(1, 2) : pick(1, 9);
    const std::int64_t batch = random() % 20 == 0 ? 0 : random() % 3 == 0 ? 1 : pick(1, 5);
    input = Shape::of(batch, c.groups * inputs), weight = Shape::of(c.groups * outputs, inputs);
    output = Shape::of(batch, c.groups * outputs);
    const bool square = random() % 6 == 0, whole = random() % 8 == 0;  // 1x1 kernels; kernels as large as the input
    for (int i = 0; i < axes; ++i) {
      const std::int64_t kernel = square ? 1 : pick(1, 4), dilation = random() % 3 == 0 ? pick(2, 3) : 1,
                         low = random() % 2 ? pick(0, 4) : 0, high = random() % 2 ? low : pick(0, 3),
                         reach = dilation * (kernel - 1) + 1, stride = random() % 2 ? pick(1, 3) : 1;
      const std::int64_t size =
          std::max<std::int64_t>(1, reach - low - high) + (whole ? 0 : pick(0, axes == 3 ? 6 : 14));
      c.strides.push_back(stride), c.dilation.push_back(dilation), c.low.push_back(low), c.high.push_back(high);
      input.push_back(size), weight.push_back(kernel), output.push_back((size + low + high - reach) / stride + 1);
    }
    for (Lies& each : lies) each = random() % 2 ? Lies::plain : static_cast<Lies>(random() % 5);
  }

  // Of the three inputs in memory: x, weight, gradient.
  Shape stored(int operand) const {
    Shape shape = operand == 0 ? input : operand == 1 ? weight : output;
    const int last = shape.rank() - 1;
    if (lies[operand] == Lies::swapped) std::swap(shape[last], shape[last - 1]);
    if (lies[operand] == Lies::spread) shape[2] = shape[2] * Dim(2);
    if (lies[operand] == Lies::repeated) shape[0] = 1;
    return shape;
  }
  Tensor as_it_lies(int operand, const Tensor& value) const {
    const Shape shape = operand == 0 ? input : operand == 1 ? weight : output;
    switch (lies[operand]) {
      case Lies::swapped: return transpose(value);
      case Lies::spread: return slice(value, 2, 0, slice_end, 2);
      case Lies::backwards: return flip(value, -1);
      case Lies::repeated: return expand(value, Sizes(shape));
      default: return value;
    }
  }
  // f32 in, f32 out; computed in the dtype.
  std::vector<Tensor> record_all(const std::vector<Tensor>& stored_values) const {
    Tensor values[3];
    for (int i = 0; i < 3; ++i) values[i] = as_it_lies(i, cast(stored_values[static_cast<std::size_t>(i)], dtype));
    const auto like = [&](const Shape& shape) { return Type{dtype, false, type_of(values[0]).device, shape}; };
    std::vector<Tensor> results = {
        record(Op::convolution, {values[0], values[1]}, attributes, {}, {}),
        record(Op::convolution_input_gradient, {values[2], values[1]}, attributes, like(input), {}),
        record(Op::convolution_weight_gradient, {values[0], values[2]}, attributes, like(weight), {})};
    for (Tensor& result : results) result = cast(result, DType::f32);
    return results;
  }
  Graph graph(Device device = {}) const {
    Trace trace;
    trace.id = new_trace_id();
    TraceScope scope(trace);
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i)
      inputs.push_back(record(Op::input, {}, Parameter{i}, Type{DType::f32, false, device, stored(i)}, {}));
    return make_graph(inputs, record_all(inputs), {});
  }
  std::string text() const {
    std::string text = info(dtype).name;
    text += to_string(input) + " with " + to_string(weight) + ", " + Attributes(attributes).to_text(dtype);
    for (const Lies each : lies) text += " " + std::to_string(static_cast<int>(each));
    return text;
  }
};

inline std::vector<Literal> random_operands(const RandomConvolution& it, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Literal> operands;
  for (int i = 0; i < 3; ++i) {
    Literal& literal = operands.emplace_back(Literal{Type{DType::f32, false, {}, it.stored(i)}});
    for (std::int64_t k = it.stored(i).element_count().constant(); k-- > 0;)
      literal.reals.push_back(static_cast<float>(static_cast<double>(random() % 2001) / 1000 - 1));
  }
  return operands;
}

// What the results may be: the reference's, and how far a few dozen roundings of f32 and one of the dtype may move
// them.
struct Allowed {
  std::vector<Literal> values, distance;

  // `part`: of the sum of magnitudes.
  Allowed(const RandomConvolution& it, std::vector<Literal> operands, double part = 0x1p-19) {
    const Graph graph = it.graph();
    values = interpret(graph, operands, {});
    for (Literal& operand : operands)
      for (double& x : operand.reals) x = std::fabs(x);
    distance = interpret(graph, operands, {});
    const double last = it.dtype == DType::bf16 ? 0x1p-8 : it.dtype == DType::f16 ? 0x1p-11 : 0;
    for (std::size_t o = 0; o < values.size(); ++o)
      for (std::size_t i = 0; i < values[o].reals.size(); ++i)
        distance[o].reals[i] = part * distance[o].reals[i] + 2 * last * std::fabs(values[o].reals[i]) + 1e-6 * last;
  }
  // The first that is further away; empty if none is.
  std::string miss(const std::vector<std::vector<float>>& results) const {
    for (std::size_t o = 0; o < values.size(); ++o) {
      if (results[o].size() != values[o].reals.size()) return "result " + std::to_string(o) + " has another size";
      for (std::size_t i = 0; i < results[o].size(); ++i)
        if (!(std::fabs(results[o][i] - values[o].reals[i]) <= distance[o].reals[i]))
          return "result " + std::to_string(o) + " element " + std::to_string(i) + " is " +
                 std::to_string(results[o][i]) + ", not " + std::to_string(values[o].reals[i]);
    }
    return {};
  }
};

}  // namespace weft::test
