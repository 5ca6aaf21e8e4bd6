// How far a result is from the exact one, in units in the last place of the exact one's type.
#pragma once
#include <cmath>
#include <limits>
#include <string>

namespace lanes_test {

// Wrong is what no number of ULP excuses: NaN for a number or the reverse, or the wrong sign (of zero, too).
constexpr double wrong = 1e30;

// `exact` is that of wider type, so that its rounding does not count. Overflow counts as 2^(max exponent), which is
// what rounding would give next.
template <class T, class Wide>
double ulp_error(T result, Wide exact) {
  using limits = std::numeric_limits<T>;
  if (std::isnan(result) || std::isnan(exact)) return std::isnan(result) && std::isnan(exact) ? 0 : wrong;
  if (std::signbit(result) != std::signbit(exact)) return wrong;
  const Wide beyond = std::ldexp(Wide(1), limits::max_exponent);
  const Wide size = std::fabs(exact) < beyond ? std::fabs(exact) : beyond;
  const Wide got = std::isinf(result) ? beyond : std::fabs(Wide(result));
  int exponent = limits::min_exponent - 1;
  if (size >= limits::min()) exponent = std::ilogb(size);
  return static_cast<double>(std::fabs(got - size) * std::ldexp(Wide(1), limits::digits - 1 - exponent));
}

// The functions that are measured, with their bounds: f32 with and without FMA, f64 the same.
template <class Wide>
struct Measured {
  std::string name;
  Wide (*exact)(Wide);
  double bound[2];  // with FMA, without
};
template <class Wide>
Wide exact_sigmoid(Wide x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
inline const Measured<double> measured_f32[] = {
    {"exp", [](double x) { return std::exp(x); }, {1.05, 1.05}},
    {"expm1", [](double x) { return std::expm1(x); }, {1.5, 1.6}},
    {"log", [](double x) { return std::log(x); }, {0.9, 0.9}},
    {"log1p", [](double x) { return std::log1p(x); }, {1.5, 1.5}},
    {"tanh", [](double x) { return std::tanh(x); }, {1.9, 2.0}},
    {"sigmoid", [](double x) { return exact_sigmoid(x); }, {2.5, 2.5}},
    {"erf", [](double x) { return std::erf(x); }, {1.9, 2.0}},
    {"sin", [](double x) { return std::sin(x); }, {0.51, 0.51}},
    {"cos", [](double x) { return std::cos(x); }, {0.51, 0.51}},
    {"exp2", [](double x) { return std::exp2(x); }, {0.52, 0.52}},
    {"log2", [](double x) { return std::log2(x); }, {0.52, 0.52}},
    {"log10", [](double x) { return std::log10(x); }, {0.52, 0.52}},
    {"tan", [](double x) { return std::tan(x); }, {0.52, 0.52}},
    {"asin", [](double x) { return std::asin(x); }, {0.52, 0.52}},
    {"acos", [](double x) { return std::acos(x); }, {0.52, 0.52}},
    {"atan", [](double x) { return std::atan(x); }, {0.52, 0.52}},
    {"sinh", [](double x) { return std::sinh(x); }, {0.52, 0.52}},
    {"cosh", [](double x) { return std::cosh(x); }, {0.52, 0.52}},
    {"asinh", [](double x) { return std::asinh(x); }, {0.52, 0.52}},
    {"acosh", [](double x) { return std::acosh(x); }, {0.52, 0.52}},
    {"atanh", [](double x) { return std::atanh(x); }, {0.52, 0.52}},
    {"erfc", [](double x) { return std::erfc(x); }, {0.52, 0.52}},
};
inline const Measured<long double> measured_f64[] = {
    {"exp", [](long double x) { return std::exp(x); }, {1.05, 1.05}},
    {"expm1", [](long double x) { return std::expm1(x); }, {2.0, 2.1}},
    {"log", [](long double x) { return std::log(x); }, {0.9, 0.9}},
    {"log1p", [](long double x) { return std::log1p(x); }, {1.5, 1.5}},
    {"tanh", [](long double x) { return std::tanh(x); }, {2.3, 2.3}},
    {"sigmoid", [](long double x) { return exact_sigmoid(x); }, {2.5, 2.5}},
    {"erf", [](long double x) { return std::erf(x); }, {1.5, 1.6}},
    {"sin", [](long double x) { return std::sin(x); }, {2.6, 2.6}},
    {"cos", [](long double x) { return std::cos(x); }, {2.6, 2.6}},
    {"exp2", [](long double x) { return std::exp2(x); }, {1.1, 1.1}},
    {"log2", [](long double x) { return std::log2(x); }, {1.7, 1.7}},
    {"log10", [](long double x) { return std::log10(x); }, {1.8, 1.8}},
    {"tan", [](long double x) { return std::tan(x); }, {3.7, 3.7}},
    {"asin", [](long double x) { return std::asin(x); }, {2.8, 2.8}},
    {"acos", [](long double x) { return std::acos(x); }, {3.1, 3.1}},
    {"atan", [](long double x) { return std::atan(x); }, {1.8, 1.8}},
    {"sinh", [](long double x) { return std::sinh(x); }, {2.5, 2.5}},
    {"cosh", [](long double x) { return std::cosh(x); }, {1.5, 1.5}},
    {"asinh", [](long double x) { return std::asinh(x); }, {1.9, 1.9}},
    {"acosh", [](long double x) { return std::acosh(x); }, {2.8, 2.8}},
    {"atanh", [](long double x) { return std::atanh(x); }, {2.2, 2.2}},
    {"erfc", [](long double x) { return std::erfc(x); }, {4.1, 4.1}},
};

}  // namespace lanes_test
