// What the tests of vmap share: a function over many examples at once, held against a loop over them.
#pragma once
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

#include "tests/needs_compiler.hpp"
#include "weft/vmap.hpp"
#include "weft/weft.hpp"

namespace vmap_test {

// Numbers in [-1, 1), other ones for another seed.
inline weft::Tensor noise(const weft::Sizes& sizes, std::uint64_t seed, weft::DType dtype = weft::DType::f64) {
  weft::Generator generator(seed);
  return weft::uniform(sizes, -1, 1, generator, {dtype});
}

inline std::vector<double> numbers(const weft::Tensor& value) {
  const weft::Tensor wide = weft::cast(value, weft::DType::f64);
  std::vector<double> list(static_cast<std::size_t>(wide.element_count().constant()));
  wide.copy_to(list);
  return list;
}

// At a tolerance of 0: of the same numbers, NaN at the same places.
inline void check_same(const weft::Tensor& value, const weft::Tensor& expected, double tolerance = 0) {
  REQUIRE(value.defined());
  REQUIRE(value.shape() == expected.shape());
  REQUIRE(value.dtype() == expected.dtype());
  const std::vector<double> a = numbers(value), b = numbers(expected);
  double scale = 1;
  for (const double each : b)
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::abs(a[i] - b[i]) <= tolerance * scale;
    if (!same) {
      CAPTURE(i);
      CHECK(a[i] == b[i]);
      return;
    }
  }
}

// The message of the Error.
template <class F>
std::string refused(F f) {
  try {
    f();
  } catch (const weft::Error& error) {
    return error.what();
  }
  return {};
}

inline weft::VmapOptions& chosen() {
  static weft::VmapOptions options;
  return options;
}

// vmap(f) of the arguments, eagerly and, where f captures nothing, compiled, against f of each example. Every argument
// has as many examples.
template <class F, class... A>
void check_rows(F f, const weft::VmapOptions& options, double tolerance, const A&... arguments) {
  using namespace weft;
  std::size_t position = 0;
  std::int64_t count = 0;
  std::vector<std::optional<int>> axes;
  const auto note = [&](const Tensor& x) {
    axes.push_back(options.in_axes.of(position++, sizeof...(A), {}));
    if (axes.back()) count = x.size(*axes.back()).constant();
  };
  (note(arguments), ...);
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    position = 0;
    const auto example = [&](const Tensor& x) {
      const std::optional<int> axis = axes[position++];
      return axis ? select(x, *axis, i) : x;
    };
    const std::array<Tensor, sizeof...(A)> own{example(arguments)...};
    rows.push_back(std::apply(f, own));
  }
  const Tensor expected = stack(rows, options.out_axis);
  {
    INFO("eager");
    check_same(vmap(f, options)(arguments...), expected, tolerance);
  }
  if constexpr (std::is_empty_v<F>) {
    INFO("compiled");
    chosen() = options;
    const auto compiled = compile([](const A&... x) { return vmap(F{}, chosen())(x...); });
    check_same(compiled(arguments...), expected, tolerance);
  }
}

}  // namespace vmap_test
