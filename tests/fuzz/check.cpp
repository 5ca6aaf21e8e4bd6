#include "fuzz/check.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/cuda/device.hpp"

namespace fuzz {

namespace {

using namespace weft;

double precision(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
}

// A fixed weight for each element, exact in every dtype, so that no gradient cancels. Of a short period, the same few
// roundings would repeat in each column and add up.
Tensor weighted_sum(const Tensor& y) {
  const Tensor mixed = remainder(arange(y.element_count(), {DType::i64, y.device()}) * 7919, 65537);
  const Tensor weights = (remainder(mixed, 251) - 125) / 128.0;
  return sum(cast(y, y.dtype() == DType::f64 ? DType::f64 : DType::f32) * reshape(cast(weights, y.dtype()), y.shape()));
}

// All results, the close ones first, then the gradients of the floating inputs.
struct All {
  std::vector<Tensor> close, exact;
};
All run(const Family& family, bool gradient, std::span<const std::int64_t> numbers, const std::vector<Tensor>& x) {
  if (!gradient) {
    Results results = family.body(numbers, x);
    return {std::move(results.close), std::move(results.exact)};
  }
  std::vector<Tensor> floating;
  for (const Tensor& input : x)
    if (is_floating(input.dtype())) floating.push_back(input);
  struct Value {
    Tensor loss;
    std::vector<Tensor> close, exact;
    WEFT_MEMBERS(loss, close, exact)
  };
  auto [value, gradients] = value_and_grad(
      [&](const std::vector<Tensor>& variables) {
        std::vector<Tensor> all = x;
        std::size_t next = 0;
        for (Tensor& input : all)
          if (is_floating(input.dtype())) input = variables[next++];
        Results results = family.body(numbers, all);
        Tensor loss = weighted_sum(results.close[0]);
        for (std::size_t i = 1; i < results.close.size(); ++i) loss += weighted_sum(results.close[i]);
        return Value{loss, results.close, results.exact};
      },
      floating);
  All all{std::move(value.close), std::move(value.exact)};
  for (Tensor& each : gradients) all.close.push_back(std::move(each));
  return all;
}

std::vector<double> numbers_of(const Tensor& x) {
  std::vector<double> numbers(static_cast<std::size_t>(x.element_count().constant()));
  if (!numbers.empty()) cast(x, DType::f64).copy_to(numbers);
  return numbers;
}

std::string text_of(const char* format, std::size_t result, std::size_t element, double found, double wanted,
                    double allowed) {
  char text[200];
  std::snprintf(text, sizeof text, format, result, element, found, wanted, allowed);
  return text;
}

// What a function gives eagerly in its own dtype, in f64, and in f64 from inputs that are moved by a unit of its dtype.
struct Expected {
  All eager, wide, moved;
  double most_elements = 1;  // of an input
  double largest = 0;        // finite element of the f64 results
};

double largest_of(const std::vector<Tensor>& all) {
  double largest = 0;
  for (const Tensor& each : all)
    for (const double x : numbers_of(each))
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  return largest;
}

// How far the order of a sum of `terms` may move it, of elements up to `largest`, with room for unlucky roundings.
double sum_allowance(double terms, double precision, double largest) {
  return 8 * std::sqrt(terms) * precision * largest;
}

std::string compare_close(std::size_t r, const Tensor& found, const Expected& expected, double least_precision) {
  const std::vector<double> y = numbers_of(found), e = numbers_of(expected.eager.close[r]),
                            w = numbers_of(expected.wide.close[r]), m = numbers_of(expected.moved.close[r]);
  if (y.size() != w.size()) return "a result of another size";
  const bool wide = found.dtype() == DType::f32 || found.dtype() == DType::f64;
  const double range = found.dtype() == DType::f16 ? 6e4 : found.dtype() == DType::f64 ? 1e300 : 1e38;
  // An element of 16 bits that is finite in f64 and not eagerly overflowed on its way.
  const auto out_of_range = [&](std::size_t i) {
    return std::fabs(w[i]) > range || (!wide && std::isfinite(w[i]) && !std::isfinite(e[i]));
  };
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (!std::isfinite(w[i]) || out_of_range(i)) continue;
    largest = std::max(largest, std::fabs(w[i]));
    apart = std::max(apart, 8 * std::fabs(m[i] - w[i]));
    if (std::isfinite(e[i])) apart = std::max(apart, 4 * std::fabs(e[i] - w[i]));
  }
  // Sums that cancel in 16 bits say nothing.
  if (apart > 0.5 * largest && !wide) return {};
  // Of few results eager execution may by chance have the right sum, and in f64 it is the measure itself.
  const double terms = expected.most_elements / (found.dtype() == DType::f64 ? 1. : static_cast<double>(y.size()));
  const double allowed = apart + 32 * least_precision * largest +
                         sum_allowance(terms, least_precision, std::max(largest, expected.largest)) + 1e-30;
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (std::isfinite(w[i]) && out_of_range(i)) continue;
    const bool fine = std::isfinite(w[i]) ? std::fabs(y[i] - w[i]) <= allowed
                      : std::isnan(w[i])  ? std::isnan(y[i])
                                          : y[i] == w[i];
    if (!fine) return text_of("close %zu, element %zu is %.9g, in f64 %.9g, allowed %.3g", r, i, y[i], w[i], allowed);
  }
  return {};
}

std::string compare_exact(std::size_t r, const Tensor& found, const Tensor& eager) {
  const std::vector<double> y = numbers_of(found), e = numbers_of(eager);
  if (y.size() != e.size()) return "a result of another size";
  for (std::size_t i = 0; i < e.size(); ++i)
    if (std::isnan(e[i]) ? !std::isnan(y[i]) : y[i] != e[i] || std::signbit(y[i]) != std::signbit(e[i]))
      return text_of("exact %zu, element %zu is %.9g, not %.9g%.0g", r, i, y[i], e[i], 0);
  return {};
}

std::string compare(const All& found, const Expected& expected, double least_precision) {
  for (std::size_t i = 0; i < found.close.size(); ++i)
    if (std::string why = compare_close(i, found.close[i], expected, least_precision); !why.empty()) return why;
  for (std::size_t i = 0; i < found.exact.size(); ++i)
    if (std::string why = compare_exact(i, found.exact[i], expected.eager.exact[i]); !why.empty()) return why;
  return {};
}

std::vector<Tensor> on(const std::vector<Tensor>& all, Device device) {
  std::vector<Tensor> there;
  for (const Tensor& each : all) there.push_back(to(each, device));
  return there;
}
All to_host(const All& all) { return {on(all.close, Device::cpu()), on(all.exact, Device::cpu())}; }

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = numbers_of(a[i]), y = numbers_of(b[i]);
    if (x.size() != y.size() || (!x.empty() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) != 0))
      return false;
  }
  return true;
}

const Family* current = nullptr;  // what the compiled function runs: one function at a time
bool with_gradient = false;

}  // namespace

std::string check(const Function& function) {
  current = function.family;
  with_gradient = function.gradient;
  double least_precision = 0;
  for (const Input& input : function.inputs)
    if (is_floating(input.dtype)) least_precision = std::max(least_precision, precision(input.dtype));
  const auto expect = [&](const std::vector<Tensor>& inputs) {
    std::vector<Tensor> wide, moved;
    const double unit = std::max(least_precision, 0x1p-52);  // less does not move an f64
    for (const Tensor& input : inputs) {
      wide.push_back(is_floating(input.dtype()) ? cast(input, DType::f64) : input);
      // In f64: in f32 most of 1 + unit * sign are 1.
      const Tensor sign = 1 - cast(remainder(arange(input.element_count()) * 11, 7), DType::f64) / 3.0;
      moved.push_back(is_floating(input.dtype()) ? wide.back() * (1 + unit * reshape(sign, input.shape())) : input);
    }
    const auto result = [&](const std::vector<Tensor>& x) {
      return run(*function.family, function.gradient, function.numbers, x);
    };
    Expected expected{result(inputs), result(wide), result(moved)};
    for (const Tensor& input : inputs)
      expected.most_elements = std::max(expected.most_elements, static_cast<double>(input.element_count().constant()));
    expected.largest = largest_of(expected.wide.close);
    return expected;
  };
  struct Outputs {
    std::vector<Tensor> close, exact;
    WEFT_MEMBERS(close, exact)
  };
  auto compiled = compile(
      [](const std::vector<std::int64_t>& numbers, const std::vector<Tensor>& x) {
        All all = run(*current, with_gradient, numbers, x);
        return Outputs{std::move(all.close), std::move(all.exact)};
      },
      {.dynamic = false, .check = Check::never, .on_compile_error = OnFailure::raise});
  const auto call = [&](const std::vector<Tensor>& inputs) {
    Outputs outputs = compiled(function.numbers, inputs);
    return to_host({std::move(outputs.close), std::move(outputs.exact)});
  };
  try {
    const std::vector<Tensor> first = inputs_of(function, 0), second = inputs_of(function, 1);
    const std::vector<Tensor> here = on(first, test::test_device()), other = on(second, test::test_device());
    const All found = call(here);
    if (std::string why = compare(found, expect(first), least_precision); !why.empty()) return "first call: " + why;
    for (int again = 0; again < 2; ++again) {
      const All same = call(here);
      if (!same_bits(same.close, found.close) || !same_bits(same.exact, found.exact)) return "a replay has other bits";
    }
    const All elsewhere = call(other);
    if (std::string why = compare(elsewhere, expect(second), least_precision); !why.empty())
      return "on other values: " + why;
  } catch (const std::exception& error) {
    return std::string("throws: ") + error.what();
  }
  return {};
}

void check_functions(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Function function = make_function(seed);
    const std::string why = check(function);
    CHECK_MESSAGE(why.empty(), "WEFT_FUZZ_FUNCTIONS=", seed, ": ", to_text(function), ": ", why);
  }
}

}  // namespace fuzz
