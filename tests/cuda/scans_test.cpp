// Scans on a CUDA device, of rows and columns that blocks share and of such that they do not: against the host, bit by
// bit where nothing is rounded, and the same bits in each run.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  return all((a == b) | ((a != a) & (b != b))).item<bool>();
}
Tensor here(const Tensor& value) { return to(value, Device::cpu()).eval(); }

// Rounded once from what is nearly exact: at most the next number of the dtype, beside what f64 leaves of the terms.
void check_near(const Tensor& there, const Tensor& expected, double unit, double terms) {
  const Tensor is = cast(here(there), DType::f64);
  const Tensor right = (abs(is - expected) <= abs(expected) * unit + terms * 1e-13) | (is == expected) |
                       ((is != is) & (expected != expected));
  CHECK(all(right).item<bool>());
}

template <int axis>
std::vector<Tensor> sums(const Tensor& x) {
  return {cumsum(x, axis), flip(cumsum(flip(x, axis), axis), axis), cumsum(x, axis) - x};
}
template <int axis>
std::vector<Tensor> extremes(const Tensor& x) {
  const auto [most, most_at] = cummax(x, axis);
  const auto [least, least_at] = cummin(x, axis);
  return {most, most_at, least, least_at};
}
template <int axis>
std::vector<Tensor> of_integers(const Tensor& x) {
  return {cumsum(x, axis), cumprod(x, axis), flip(cumsum(flip(x, axis), axis), axis), cummax(x, axis).values,
          cummin(x, axis).indices};
}

template <int axis>
void check_floats(const Tensor& x, double unit) {
  const Tensor there = to(x, Device::cuda()).eval();
  const Tensor sizes = where(x == x, abs(cast(x, DType::f64)), 0);  // a NaN is told by itself
  const double terms = max(cumsum(sizes, axis)).item();
  auto compiled = compile(sums<axis>);
  const std::vector<Tensor> found = compiled(there), expected = sums<axis>(cast(x, DType::f64));
  check_near(found[0], expected[0], unit, terms);
  check_near(found[1], expected[1], unit, terms);
  for (int run = 0; run < 4; ++run) {  // from the third on as a graph
    const std::vector<Tensor> again = compiled(there);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(here(again[i]), here(found[i])));
  }
  CHECK(same_bits(here(cumsum(there, axis)), here(found[0])));  // eagerly
}
template <int axis>
void check_exact(const Tensor& x) {
  const std::vector<Tensor> found = compile(extremes<axis>)(to(x, Device::cuda())), expected = extremes<axis>(x);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(here(found[i]), here(expected[i])));
  }
}
template <int axis>
void check_integers(const Tensor& x) {
  const std::vector<Tensor> found = compile(of_integers<axis>)(to(x, Device::cuda())), expected = of_integers<axis>(x);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(here(found[i]), here(expected[i])));
  }
}
template <int axis>
void check(const Sizes& sizes) {
  const Tensor x = sample(sizes, 5);
  check_floats<axis>(x, 0x1p-23);
  check_exact<axis>((round(x * 4) / 4).eval());  // equal elements in many chunks
}
template <int axis>
void check_all_dtypes(const Sizes& sizes) {
  check<axis>(sizes);
  const Tensor x = sample(sizes, 5);
  check_floats<axis>(cast(x, DType::f64).eval(), 0x1p-51);
  check_floats<axis>(cast(x, DType::bf16).eval(), 0x1p-7);
  check_floats<axis>(cast(x, DType::f16).eval(), 0x1p-10);
  check_exact<axis>(cast(round(x * 4) / 4, DType::bf16).eval());
  check_integers<axis>(cast(round(x * 100), DType::i64).eval());
  check_integers<axis>(cast(round(x * 100), DType::i32).eval());
  check_integers<axis>(cast(round(abs(x) * 40), DType::u8).eval());
  check_integers<axis>((x > 1).eval());
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: scans of rows, whole and with a rest, around the lengths from which blocks share them") {
  for (const auto& [rows, columns] :
       {std::pair<int, int>{1, 1}, {1, 2047}, {1, 16896}, {1, 65536}, {1, 65537}, {3, 20000}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    check<1>({rows, columns});
  }
  check_all_dtypes<1>({3, 20001});
  check_all_dtypes<1>({3, 300});
  for (const auto& [rows, columns] : {std::pair<int, int>{1, 16897}, {1, 262139}, {64, 49200}, {600, 5000}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    check_floats<1>(sample({rows, columns}, 5), 0x1p-23);
  }
  CHECK(cumsum(to(zeros({3, 0}), Device::cuda()), 1).element_count() == Dim(0));
  CHECK(cumsum(to(zeros({0, 70000}), Device::cuda()), 1).element_count() == Dim(0));
}

TEST_CASE("cuda: scans of columns, few and many, in chunks and not") {
  for (const auto& [rows, columns] :
       {std::pair<int, int>{31, 5}, {255, 8}, {256, 8}, {257, 3}, {4099, 1}, {600, 130}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    check<0>({rows, columns});
  }
  check_all_dtypes<0>({601, 130});
  for (const auto& [rows, columns] : {std::pair<int, int>{8, 70000}, {33000, 8}, {1000, 128}, {300, 16385}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    check_floats<0>(sample({rows, columns}, 5), 0x1p-23);
  }
  check<1>({3, 700, 20});
}

TEST_CASE("cuda: scans and the first few of an order, where sizes are symbols") {
  auto integers = compile(of_integers<1>, {.dynamic = true});
  auto columns = compile(of_integers<0>, {.dynamic = true});
  auto positions = compile(extremes<1>, {.dynamic = true});
  auto few = compile(
      [](const Tensor& x) {
        const auto [values, indices] = topk(x, 5);
        return std::vector<Tensor>{values, indices, kthvalue(x, 3).values};
      },
      {.dynamic = true});
  for (const auto& [n, m] : {std::pair<int, int>{3, 300}, {2, 70001}, {1, 262139}, {600, 130}}) {
    CAPTURE(n);
    CAPTURE(m);
    const Tensor x = (round(sample({n, m}, 5) * 100) / 4).eval(), there = to(x, Device::cuda()).eval();
    const Tensor whole = cast(x, DType::i64).eval(), whole_there = to(whole, Device::cuda()).eval();
    const std::vector<std::pair<std::vector<Tensor>, std::vector<Tensor>>> all_of = {
        {integers(whole_there), of_integers<1>(whole)},
        {columns(whole_there), of_integers<0>(whole)},
        {positions(there), extremes<1>(x)},
        {few(there), {topk(x, 5).values, topk(x, 5).indices, kthvalue(x, 3).values}}};
    for (const auto& [found, expected] : all_of)
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(same_bits(here(found[i]), here(expected[i])));
      }
  }
}

TEST_CASE("cuda: a scan of 2^26 elements is right to the last ones, and along both axes of 2^23") {
  const Tensor x = sample({1 << 26}, 6);
  check_floats<0>(x, 0x1p-23);
  const Tensor counts = to(full({1 << 26}, 1, {.dtype = DType::i32}), Device::cuda());
  const Tensor counted = cumsum(counts, 0);
  CHECK(here(counted[(1 << 26) - 1]).item<std::int64_t>() == 1 << 26);
  CHECK(all(counted == arange(1 << 26, {.device = Device::cuda()}) + 1).item<bool>());
  check_floats<0>(reshape(slice(x, 0, 0, 1 << 23), {1 << 20, 8}).eval(), 0x1p-23);
  check_floats<0>(reshape(slice(x, 0, 0, 1 << 23), {8, 1 << 20}).eval(), 0x1p-23);
}

TEST_CASE("cuda: NaN and infinities in a chunk go on in the later ones, and not in earlier ones") {
  const int columns = 100'000;
  const Tensor place = arange(columns), x = sample({columns}, 8);
  for (const double special :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    const Tensor row = where(place == 51'234, special, x).eval(), there = to(row, Device::cuda()).eval();
    check_exact<0>(row);
    check_floats<0>(row, 0x1p-23);
    const Tensor logs = compile([](const Tensor& t) { return logcumsumexp(t, 0); })(there);
    const Tensor expected = logcumsumexp(cast(row, DType::f64), 0);
    check_near(logs, expected, 0x1p-22, 1);
  }
  // Nothing but -inf at first.
  const Tensor late = where(place < 60'000, -std::numeric_limits<double>::infinity(), x).eval();
  check_near(logcumsumexp(to(late, Device::cuda()), 0), logcumsumexp(cast(late, DType::f64), 0), 0x1p-22, 1);
  const Tensor near_one = (1 + x * 1e-5).eval();
  check_near(cumprod(to(near_one, Device::cuda()), 0), cumprod(cast(near_one, DType::f64), 0), 0x1p-23, 1);
}

TEST_CASE("cuda: gradients of long scans, and what is fused with them") {
  const int columns = 90'001;
  const Tensor x = sample({columns}, 9), weight = sample({columns}, 10);
  const auto step = [](const Tensor& t, const Tensor& w) {
    return std::vector<Tensor>{grad([&](const Tensor& p) { return sum(cumsum(p * 2, 0) * w); }, t),
                               grad([&](const Tensor& p) { return sum(logcumsumexp(p, 0) * w); }, t),
                               grad([&](const Tensor& p) { return sum(cummax(p, 0).values * w); }, t),
                               exp(-abs(cumsum(t * w, 0))), cumsum(cumsum(t, 0) * w, 0)};
  };
  const std::vector<Tensor> found = compile(step)(to(x, Device::cuda()), to(weight, Device::cuda()));
  const std::vector<Tensor> expected = step(cast(x, DType::f64), cast(weight, DType::f64));
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    const Tensor is = cast(here(found[i]), DType::f64);
    CHECK(max(abs(is - expected[i])).item() <= 2e-5 * max(abs(expected[i])).item());
  }
}

TEST_SUITE_END();
