// What the tests against PyTorch's numbers share: inputs that the scripts beside them make too, and the comparison.
#pragma once
#include "tests/loops/support.hpp"

namespace golden_test {

inline weft::Tensor wave(const weft::Sizes& sizes, int seed) {
  std::int64_t count = 1;
  for (const weft::Dim size : sizes.shape()) count *= static_cast<std::int64_t>(size);
  return reshape(sin(cast(weft::arange(count), weft::DType::f64) * 0.7 + seed) * 0.6, sizes);
}

inline void check_numbers(const std::vector<double>& golden, const std::vector<weft::Tensor>& values,
                          double tolerance = 1e-9) {
  std::vector<double> numbers;
  for (const weft::Tensor& value : values) {
    const weft::Tensor wide = cast(value, weft::DType::f64);
    for (const double each : wide.data<double>()) numbers.push_back(each);
  }
  REQUIRE(numbers.size() == golden.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(i);
    if (std::isinf(golden[i]))
      CHECK(numbers[i] == golden[i]);
    else
      CHECK(numbers[i] == doctest::Approx(golden[i]).epsilon(tolerance));
  }
}

// f(inputs) gives a list of results: those, and the gradients of the inputs of their sum with waves 50, 51, ...,
// eagerly, compiled, and compiled over symbolic sizes.
template <class F>
void check(const std::vector<double>& golden, const std::vector<weft::Tensor>& inputs, F f, double tolerance = 1e-9) {
  using List = std::vector<weft::Tensor>;
  const auto both = [](const List& inputs, const F& f) {
    List values = f(inputs);
    const List gradients = weft::grad(
        [&](const List& inputs) {
          const List values = f(inputs);
          weft::Tensor loss = weft::full({}, 0, {weft::DType::f64});
          for (std::size_t i = 0; i < values.size(); ++i)
            loss = loss + sum(values[i] * wave(values[i].shape(), 50 + static_cast<int>(i)));
          return loss;
        },
        inputs);
    values.insert(values.end(), gradients.begin(), gradients.end());
    return values;
  };
  check_numbers(golden, both(inputs, f), tolerance);
  for (const bool dynamic : {false, true}) {
    weft::CompileOptions options{.on_compile_error = weft::OnFailure::raise};
    if (dynamic) options.dynamic = true;
    check_numbers(golden, weft::compile(both, options)(inputs, f), tolerance);
  }
}

}  // namespace golden_test
