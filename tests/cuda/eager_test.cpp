// Eager operations of many sizes on a device: executables that serve all sizes are told apart by what was decided of
// them.
#include <doctest/doctest.h>

#include "tests/cuda/values.hpp"

using namespace weft;
using namespace cuda_test;

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("operations of so many sizes that one executable serves all of them, some of them equal by chance") {
  const auto check = [](std::int64_t rows, std::int64_t columns, auto f) {
    const Tensor x = sample({2, rows, columns}, 1), y = to(x, Device::cuda()).eval();
    CHECK(apart(f(y), f(x)) < 1e-6);
  };
  for (std::int64_t rows = 3; rows < 12; ++rows)
    for (std::int64_t columns = 3; columns < 12; ++columns) {
      CAPTURE(rows);
      CAPTURE(columns);
      check(rows, columns, [=](const Tensor& x) { return slice(x, 1, 1, rows - 1, 1); });
      check(rows, columns, [](const Tensor& x) { return slice(x, 2, 0, 2, 1) * 2; });
      check(rows, columns, [](const Tensor& x) { return sum(x, {1}, true) + x; });
      check(rows, columns, [](const Tensor& x) { return concat({x, x}, 1); });
      check(rows, columns, [](const Tensor& x) { return nn::max_pool1d(x, 2, {.stride = 3, .ceil_mode = true}); });
    }
}

TEST_SUITE_END();
