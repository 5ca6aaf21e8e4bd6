// Products over groups of rows by our own kernels, and their gradients: groups of no rows, of one and of all, ends that
// are out of order or beyond the rows, sizes that are no multiples of tiles, matrices that lie either way. What
// Hopper's kernels do not take, on a device that is no Hopper all, is done by warps. Skipped without a GPU.
#include <doctest/doctest.h>

#include <limits>

#include "tests/cuda/products.hpp"
#include "weft/groups.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

using Ends = std::vector<std::int64_t>;

Tensor ends_of(const Ends& ends) {
  return to(from_span(ends, {static_cast<std::int64_t>(ends.size())}), Device::cuda()).eval();
}

void check_close(const Tensor& found, const Tensor& right, DType dtype) {
  CHECK(amax(abs(cast(found, DType::f32) - right)).item() <= amax(abs(right)).item() * unit_of(dtype));
  CHECK(!any(isnan(found)).item<bool>());
}

// The product, and the gradients of x and the matrices for a given one of the result.
Operands both(const Operands& in) {
  const auto product = [&](const Operands& it) { return grouped_matmul(it[0], it[1], in[2]); };
  const auto [value, pull_back] = vjp(product, Operands{in[0], in[1]});
  const Operands gradients = pull_back(in[3]);
  return {value, gradients[0], gradients[1]};
}

bool is_hopper() { return runtime::cuda::use(Device::cuda()).capability.major == 9; }

void check_groups(const Operands& in, bool by_warps = !is_hopper()) {
  const DType dtype = in[0].dtype();
  Operands wide;
  for (const Tensor& each : in) wide.push_back(is_floating(each.dtype()) ? cast(each, DType::f32).eval() : each);
  const auto compiled = compile([](const Operands& x) { return both(x); });
  const Operands right = both(wide), found = compiled(in);
  for (std::size_t i = 0; i < right.size(); ++i) {
    CAPTURE(i);
    check_close(found[i], right[i], dtype);
    CHECK(amax(abs(cast(compiled(in)[i], DType::f32) - cast(found[i], DType::f32))).item() == 0);
  }
  const std::string schedule = explain(compiled, in).schedule;
  CHECK(count(schedule, "by tensor cores") == 3);
  CHECK(count(schedule, "each warp for itself") == (by_warps ? 3 : 0));
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: products over groups of rows and their gradients, of any ends") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [rows, k, n, ends] :
         {std::tuple(512, 256, 512, Ends{100, 100, 228, 512}),       // one is empty
          std::tuple(300, 72, 328, Ends{0, 300, 300}),               // one has all
          std::tuple(1000, 200, 136, Ends{1, 2, 130, 66, 5000, 7}),  // out of order, and beyond the rows
          std::tuple(777, 136, 264, Ends{-3, 64, 192, 321, 700}),    // rows after the last end
          std::tuple(1, 64, 64, Ends{0, 1, 1}), std::tuple(129, 640, 640, Ends{129}), std::tuple(2000, 128, 384, [] {
            Ends many;
            for (int i = 0; i < 70; ++i) many.push_back(i * i * 2000 / (69 * 69));
            return many;
          }())}) {
      CAPTURE(rows);
      CAPTURE(k);
      CAPTURE(n);
      const auto groups = static_cast<std::int64_t>(ends.size());
      const Tensor x = there({rows, k}, 1, dtype), given = there({rows, n}, 2, dtype);
      check_groups({x, there({groups, k, n}, 3, dtype), ends_of(ends), given});
      check_groups({x, transpose(there({groups, n, k}, 3, dtype)), ends_of(ends), given});
    }
}

TEST_CASE("cuda: products over groups that each warp does for itself, of few rows or columns and of many groups") {
  Ends many(1100, 64);  // of 64, 33, 3 and 300 rows; all others are empty
  for (int i = 40; i < 1100; ++i) many[i] = i < 700 ? 97 : i < 701 ? 100 : 400;
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [rows, k, n, ends] :
         {std::tuple(1, 8, 8, Ends{0, 1}), std::tuple(333, 40, 72, Ends{8, 108, 108, 333}),
          std::tuple(130, 56, 1000, Ends{65, 130}), std::tuple(777, 264, 40, Ends{-3, 64, 192, 321, 700}),
          std::tuple(257, 2048, 56, Ends{31, 32, 33, 257}), std::tuple(400, 200, 136, many)}) {
      CAPTURE(rows);
      CAPTURE(k);
      CAPTURE(n);
      const auto groups = static_cast<std::int64_t>(ends.size());
      const Tensor x = there({rows, k}, 1, dtype), given = there({rows, n}, 2, dtype);
      check_groups({x, there({groups, k, n}, 3, dtype), ends_of(ends), given}, true);
      check_groups({x, transpose(there({groups, n, k}, 3, dtype)), ends_of(ends), given}, true);
    }
}

TEST_CASE("cuda: a group does not see what another one has") {
  // Of k and rows that are no multiples of what is fetched at once; by warps on any device, and by Hopper's kernels.
  for (const std::int64_t k : {40, 72}) {
    const Tensor ends = ends_of({70, 130, 200});
    const Tensor group = to(from_list<std::int64_t>({0, 1, 0}), Device::cuda()), row = arange(200).eval();
    const Tensor is_second = to((row >= 70) & (row < 130), Device::cuda());
    const Tensor x =
        where(unsqueeze(is_second, 1), std::numeric_limits<double>::infinity(), there({200, k}, 1, DType::bf16)).eval();
    const Tensor w = where(reshape(group, {3, 1, 1}) == 1, std::numeric_limits<double>::quiet_NaN(),
                           there({3, k, 136}, 2, DType::bf16))
                         .eval();
    const Tensor given = there({200, 136}, 3, DType::bf16);
    const Operands found = compile([](const Operands& x) { return both(x); })({x, w, ends, given});
    const Tensor elsewhere = where(unsqueeze(is_second, 1), 0, 1);
    CHECK(!any(isnan(where(elsewhere != 0, found[0], 0))).item<bool>());
    CHECK(!any(isnan(where(elsewhere != 0, found[1], 0))).item<bool>());
    CHECK(!any(isnan(found[2])[0]).item<bool>());
    CHECK(!any(isnan(found[2])[2]).item<bool>());
  }
}

TEST_CASE("cuda: parts of matrices over groups, sizes that are not known, and sizes that no kernel takes") {
  const Tensor x = there({400, 264}, 4, DType::bf16), w = there({5, 264, 520}, 5, DType::bf16),
               ends = ends_of({0, 130, 131, 300, 400});
  const auto part = [](const Tensor& x, const Tensor& w, const Tensor& ends) {
    return grouped_matmul(slice(x, 1, 8, 264), slice(slice(w, 1, 8, 264), 2, 16, 512), ends);
  };
  const auto compiled = compile(part);
  check_close(compiled(x, w, ends), part(cast(x, DType::f32), cast(w, DType::f32), ends), DType::bf16);
  const auto odd = compile([](const Tensor& x, const Tensor& w, const Tensor& ends) {
    return grouped_matmul(slice(x, 1, 3, 70), slice(w, 1, 3, 70), ends);
  });
  check_close(odd(x, w, ends),
              grouped_matmul(slice(cast(x, DType::f32), 1, 3, 70), slice(cast(w, DType::f32), 1, 3, 70), ends),
              DType::bf16);
  const auto any_rows =
      compile([](const Tensor& x, const Tensor& w, const Tensor& ends) { return grouped_matmul(x, w, ends); },
              {.dynamic = true});
  for (const std::int64_t rows : {400, 300, 131, 399})
    check_close(any_rows(slice(x, 0, 0, rows).eval(), w, ends),
                grouped_matmul(cast(slice(x, 0, 0, rows), DType::f32), cast(w, DType::f32), ends), DType::bf16);
}

TEST_SUITE_END();
