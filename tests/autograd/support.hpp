// What the tests of differentiation share: functions are traced, and the graph is run by the reference interpreter in
// float64, so that a derivative is held against differences of the function itself and no kernel takes part.
#pragma once
#include <cmath>
#include <functional>

#include "base/fail.hpp"
#include "interpret/reference.hpp"
#include "record/default_device.hpp"
#include "record/record.hpp"
#include "weft/grad.hpp"

namespace weft::test {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;
using ManyFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Of a tensor that a factory makes.
inline Type made_type(DType dtype, const Shape& shape) { return {dtype, false, default_device, shape}; }
inline Literal literal(const Shape& shape, std::vector<double> reals) {
  return {made_type(DType::f64, shape), std::move(reals), {}};
}
inline Literal integers(const Shape& shape, std::vector<std::int64_t> values) {
  return {made_type(DType::i64, shape), {}, std::move(values)};
}

// Numbers in (low, high) that look random, the same in every run.
inline std::vector<double> numbers(std::int64_t count, double low, double high, unsigned seed) {
  std::vector<double> values;
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    values.push_back(low + (high - low) * static_cast<double>(state >> 11) * 0x1p-53);
  }
  return values;
}
inline Literal numbers(const Shape& shape, double low, double high, unsigned seed) {
  return literal(shape, numbers(shape.element_count().constant(), low, high, seed));
}

// The graph of a function of these inputs.
inline Graph trace(const ManyFunction& f, std::span<const Literal> inputs) {
  Trace trace;
  trace.id = new_trace_id();
  TraceScope scope(trace);
  std::vector<Tensor> handles;
  for (const Literal& input : inputs) {
    trace.inputs.push_back(record(Op::input, {}, Parameter{static_cast<std::int64_t>(handles.size())}, input.type, {}));
    handles.push_back(trace.inputs.back());
  }
  std::vector<Tensor> outputs = f(handles);
  Graph graph = make_graph(trace.inputs, outputs, trace.effects);
  verify(graph);
  return graph;
}
inline std::vector<Literal> run(const ManyFunction& f, std::span<const Literal> inputs) {
  return interpret(trace(f, inputs), inputs, {});
}
inline ManyFunction one(const Function& f) {
  return [f](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x)}; };
}
// The function's gradients, of all inputs that are floating.
inline ManyFunction gradients_of(const Function& f) {
  return [f](const std::vector<Tensor>& x) {
    std::vector<Tensor> reals, rest;
    for (const Tensor& value : x) (is_floating(value.dtype()) ? reals : rest).push_back(value);
    auto all = [&](const std::vector<Tensor>& variables) {
      std::vector<Tensor> values;
      auto real = variables.begin();
      auto other = rest.begin();
      for (const Tensor& value : x) values.push_back(is_floating(value.dtype()) ? *real++ : *other++);
      return f(values);
    };
    return grad(all, reals);
  };
}

// Largest difference between f's gradients and central differences, as a part of 1 + |difference quotient|. f gives one
// number of f64.
inline double gradient_error(const Function& f, std::vector<Literal> inputs, double step = 1e-5) {
  Graph value = trace(one(f), inputs);
  std::vector<Literal> gradients = run(gradients_of(f), inputs);
  double worst = 0;
  std::size_t next = 0;
  for (Literal& input : inputs) {
    if (!is_floating(input.type.dtype)) continue;
    const Literal& gradient = gradients.at(next++);
    WEFT_CHECK(gradient.type.shape.same(input.type.shape) && gradient.type.dtype == input.type.dtype);
    for (std::size_t i = 0; i < input.reals.size(); ++i) {
      double at = input.reals[i];
      input.reals[i] = at + step;
      double above = interpret(value, inputs, {})[0].reals[0];
      input.reals[i] = at - step;
      double below = interpret(value, inputs, {})[0].reals[0];
      input.reals[i] = at;
      double quotient = (above - below) / (2 * step),
             error = std::abs(gradient.reals[i] - quotient) / (1 + std::abs(quotient));
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    }
  }
  return worst;
}

// One number out of f's result, to which every element contributes differently.
inline Function weighted(const Function& f) {
  return [f](const std::vector<Tensor>& x) {
    Tensor y = f(x);
    if (y.rank() == 0) return y * 1.5;
    return sum(y * (cos(cast(reshape(arange(y.element_count()), y.shape()), DType::f64) * 1.7 + 0.3) + 0.5));
  };
}
// One number out of f's gradients: what is differentiated for second derivatives.
inline Function gradient_number(const Function& f) {
  return [f](const std::vector<Tensor>& x) {
    Tensor total;
    for (const Tensor& gradient : gradients_of(f)(x)) {
      Tensor part = weighted([&](const std::vector<Tensor>&) { return gradient; })(x);
      total = total.defined() ? total + part : part;
    }
    // So that a gradient which is constant still depends on the inputs.
    for (const Tensor& value : x)
      if (is_floating(value.dtype())) total = total + sum(value) * 0.1;
    return total;
  };
}

}  // namespace weft::test
