// Layers against PyTorch's numbers (layers_golden.py): results and gradients, compiled, eager, and compiled for sizes
// that vary.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/record/refused.hpp"
#include "weft/weft.hpp"

namespace nn_test {

using namespace weft;

const std::vector<double>& golden(const std::string& name);

inline Tensor wave(const Sizes& sizes, int seed) {
  std::int64_t count = 1;
  for (const Dim size : sizes.shape()) count *= static_cast<std::int64_t>(size);
  return reshape(sin(cast(arange(count), DType::f64) * 0.7 + seed) * 0.6, sizes);
}

struct NoModel {};
template <class M>
struct Trial {
  M model;
  std::vector<Tensor> inputs;
};
using Values = std::vector<Tensor>;

// What F gives, then the gradients of the sum with other waves: for inputs and parameters.
template <class F, class M>
Values results_and_gradients(Trial<M>& c) {
  Values values, places = c.inputs;
  for (const auto& parameter : nn::parameters(c.model)) places.push_back(parameter.value);
  const auto found = value_and_grad(
      [&](const Values& places) {
        M moved = c.model;
        std::size_t next = c.inputs.size();
        const Values inputs(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(next));
        for (auto& parameter : nn::parameters(moved)) parameter.value = Param(places[next++]);
        const Values values = F()(moved, inputs);
        Tensor loss = full({}, 0, {DType::f64});
        for (std::size_t i = 0; i < values.size(); ++i) {
          Tensor wave = reshape(cast(arange(values[i].element_count()), DType::f64), values[i].shape());
          loss = loss + sum(values[i] * sin(wave * 0.7 + (50 + static_cast<int>(i))) * 0.6);
        }
        return std::pair{loss, values};
      },
      std::as_const(places));
  values = found.value.second;
  values.insert(values.end(), found.gradients.begin(), found.gradients.end());
  return values;
}

// `F`, a function without captures, of a model, whose parameters become waves, and of inputs, which are waves of these
// sizes. Axis 0 of the inputs varies in the third run, and axis `varies` too; a negative one: none.
template <class F, class M = NoModel>
void check_golden(const std::string& name, const std::vector<Sizes>& sizes, F, M model = {}, int varies = 0) {
  CAPTURE(name);
  const std::vector<double>& expected = golden(name);
  int seed = 0;
  for (auto& parameter : nn::parameters(model)) parameter.value.tensor() = wave(parameter.value->shape(), seed++);
  Trial<M> trial{model, {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) trial.inputs.push_back(wave(sizes[i], 30 + static_cast<int>(i)));
  for (int way = 0; way < 3; ++way) {
    CAPTURE(way);  // eager, compiled, symbolic
    Trial<M> own = trial;
    if (way == 2 && varies >= 0)
      for (Tensor& input : own.inputs) {
        input = input * 1;
        input.eval();
        for (const int axis : {0, varies})
          if (axis < input.rank() && input.size(axis) > Dim(1)) mark_dynamic(input, axis);
      }
    auto run = compile(results_and_gradients<F, M>, {.backend = way == 0 ? Backend::eager : Backend::compiled});
    std::vector<double> numbers;
    for (const Tensor& value : run(own))
      for (const double each : value.data<double>()) numbers.push_back(each);
    REQUIRE(numbers.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double error = std::abs(numbers[i] - expected[i]) / (1 + std::abs(expected[i]));
      if (!(error <= worst)) worst = error;
    }
    CHECK(worst < 1e-9);
  }
}

}  // namespace nn_test
