// The order of rows against std::stable_sort: sizes around those where sorting changes its method, keys that differ in
// high bits, low bits or both, equal elements, NaN and both zeros, both directions.
#include "runtime/host/argsort.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "ir/table.hpp"

using namespace weft;

namespace {

template <class T>
bool is_before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

template <class T>
void check_rows(DType dtype, const std::vector<T>& values, std::int64_t rows) {
  const std::int64_t size = static_cast<std::int64_t>(values.size()) / rows;
  for (const bool descending : {false, true}) {
    std::vector<std::int64_t> order(values.size(), -1), expected(values.size());
    runtime::argsort(dtype, {rows, size, 0, size}, descending, values.data(), order.data());
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto first = expected.begin() + row * size;
      std::iota(first, first + size, 0);
      std::stable_sort(first, first + size, [&](std::int64_t i, std::int64_t j) {
        const T a = values[static_cast<std::size_t>(row * size + i)],
                b = values[static_cast<std::size_t>(row * size + j)];
        return descending ? is_before(b, a) : is_before(a, b);
      });
    }
    INFO(info(dtype).name, ", ", rows, " rows of ", size, descending ? ", descending" : "");
    CHECK(order == expected);
  }
}

constexpr std::int64_t sizes[] = {1, 2, 3, 127, 128, 129, 1000, (1 << 14) - 1, 1 << 14, 40000};

template <class T, class Value>
void check_sizes(DType dtype, Value value) {
  std::mt19937_64 random(7);
  for (const std::int64_t size : sizes)
    for (const std::int64_t rows : {1, 3}) {
      std::vector<T> values;
      for (std::int64_t i = 0; i < rows * size; ++i) values.push_back(static_cast<T>(value(random)));
      check_rows(dtype, values, rows);
    }
}

}  // namespace

TEST_CASE("argsort: integers of 64 bits, wherever their bits differ") {
  const auto check = [](auto value) { check_sizes<std::int64_t>(DType::i64, value); };
  check([](auto& random) { return random(); });
  check([](auto& random) { return random() % 1000 - 500; });
  check([](auto& random) { return random() % 3 << 62; });
  check([](auto& random) { return random() % 4 << 60 | random() % 100000; });             // long runs that differ below
  check([](auto& random) { return random() % 5000 << 45 | random() % 7; });               // short ones
  check([](auto& random) { return (std::uint64_t{1} << 40) + random() % 0x1ffffffff; });  // 33 bits
  check([](auto&) { return 42; });
}

TEST_CASE("argsort: narrow integers") {
  check_sizes<std::int32_t>(DType::i32, [](auto& random) { return random(); });
  check_sizes<std::int32_t>(DType::i32, [](auto& random) { return random() % 9 << 16; });
  check_sizes<std::uint8_t>(DType::u8, [](auto& random) { return random(); });
}

TEST_CASE("argsort: floats with NaN, zeros of both signs and infinities") {
  const auto value = [](auto& random) {
    using Limits = std::numeric_limits<double>;
    switch (random() % 10) {
      case 0: return random() % 2 ? Limits::quiet_NaN() : -Limits::quiet_NaN();
      case 1: return random() % 2 ? 0.0 : -0.0;
      case 2: return random() % 2 ? Limits::infinity() : -Limits::infinity();
      case 3: return 1 + static_cast<double>(random() % 100) * Limits::epsilon();  // differ in the lowest bits
      default: return std::normal_distribution<double>(0, 3)(random);
    }
  };
  check_sizes<double>(DType::f64, value);
  check_sizes<float>(DType::f32, value);
}
