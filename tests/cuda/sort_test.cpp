// Sorts on a CUDA device around the limits of a block: what the host gives, to the bit, several in one function.
#include <doctest/doctest.h>

#include <limits>
#include <utility>
#include <vector>

#include "tests/cuda/support.hpp"
#include "tests/sanitized.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

bool same(const Tensor& there, const Tensor& here) {
  const Tensor found = to(there, Device::cpu());
  if (found.dtype() != here.dtype() || !(found.shape() == here.shape())) return false;
  return all((found == here) | ((found != found) & (here != here))).item<bool>();
}

// Equal elements, NaN and infinities among them.
Tensor mixed(const Sizes& sizes, std::uint64_t seed) {
  const Tensor x = round(sample(sizes, seed) * 16) / 16;
  const Tensor special = where(x > 1.9, std::numeric_limits<double>::quiet_NaN(), x);
  return where(special < -1.9, -std::numeric_limits<double>::infinity(), special);
}

struct Orders {
  Tensor along, across, order, most;
  WEFT_MEMBERS(along, across, order, most)
};
Orders orders(const Tensor& x) {
  return {sort(x, 1).values, sort(x, 0, true).values, argsort(x, 1, true), topk(x, 2, 1).indices};
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: several sorts of one tensor in one function, called three times") {
  auto compiled = compile(orders);
  using Sides = std::vector<std::pair<int, int>>;
  const bool smaller = test::under_device_tool();
  for (const auto& [rows, columns] :
       smaller ? Sides{{3, 5000}, {257, 31}, {256, 40}, {2, 8192}, {1100, 3}}
               : Sides{{33, 5000}, {2, 5000}, {257, 3001}, {256, 5000}, {100, 8192}, {3000, 33}})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor x = cast(mixed({rows, columns}, 7), dtype), there = to(x, Device::cuda());
      const Orders expected = orders(x);
      for (int call = 0; call < (smaller ? 1 : 3); ++call) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(call);
        const Orders found = compiled(there);
        CHECK(same(found.along, expected.along));
        CHECK(same(found.across, expected.across));
        CHECK(same(found.order, expected.order));
        CHECK(same(found.most, expected.most));
      }
    }
}

TEST_CASE("cuda: rows of every length around those of 1024 and 2048 elements, and of none") {
  for (const int size : {1, 2, 3, 31, 33, 512, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 33000})
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::i16}) {
      CAPTURE(size);
      CAPTURE(info(dtype).name);
      const Tensor x = is_floating(dtype) ? cast(mixed({5, size}, 3), dtype)
                                          : cast(remainder(arange(5 * size) * 7919, 97) - 40, dtype);
      const Tensor row = reshape(x, {5, size}), there = to(row, Device::cuda());
      for (const bool descending : {false, true})
        CHECK(same(argsort(there, 1, descending), argsort(row, 1, descending)));
    }
  CHECK(argsort(to(zeros({3, 0}), Device::cuda()), 1).element_count() == Dim(0));
}

TEST_CASE("cuda: long rows of values of all sizes, both zeros and both infinities") {
  Generator generator(11);
  constexpr std::int64_t half = std::int64_t{1} << 30, upper = std::int64_t{1} << 33;
  const Tensor high = randint({2, 20000}, -half, half, generator), low = randint({2, 20000}, 0, 2 * half, generator);
  const Tensor bits = (high * upper + low).eval();
  const Tensor doubles = bitcast(bits, DType::f64).eval(), floats = cast(doubles, DType::f32).eval();
  const Tensor zeros_too = where(remainder(arange(20000), 3) == 0, where(floats > 0, 0., -0.), floats).eval();
  for (const Tensor& x : {bits, doubles, floats, zeros_too, cast(bits, DType::i32).eval()})
    for (const bool descending : {false, true})
      CHECK(same(argsort(to(x, Device::cuda()), 1, descending), argsort(x, 1, descending)));
}

TEST_CASE("cuda: the first few of an order are those of the host, around the pieces in which they are selected") {
  struct Case {
    int rows, columns;
    std::vector<int> counts;
  };
  for (const auto& [rows, columns, counts] :
       {Case{3, 1024, {1, 20}}, Case{3, 1025, {1, 2, 64}}, Case{2, 8191, {1, 256, 511}}, Case{5, 8192, {3, 100}},
        Case{5, 8193, {1, 7, 512}}, Case{64, 50257, {50, 1000}}, Case{1, 128256, {1, 256, 1024, 1025}},
        Case{1, 1 << 20, {40, 1023}}, Case{300, 20000, {8}}}) {
    const Tensor x = mixed({rows, columns}, 5);  // many equal elements
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
      const Tensor row = is_floating(dtype) ? cast(x, dtype) : cast(nan_to_num(x, 3, 3, -3) * 40, dtype);
      const Tensor there = to(row, Device::cuda());
      for (const int count : counts)
        for (const bool largest : {true, false}) {
          CAPTURE(columns);
          CAPTURE(count);
          CAPTURE(largest);
          const auto expected = topk(row, count, 1, largest), found = topk(there, count, 1, largest);
          CHECK(same(found.indices, expected.indices));
          CHECK(same(found.values, expected.values));
        }
      CHECK(same(kthvalue(there, 17, 1).indices, kthvalue(row, 17, 1).indices));
    }
  }
}

TEST_CASE("cuda: the greatest of 2^24 elements, of elements that are all equal, and of NaN alone") {
  const Tensor x = sample({1 << 24}, 6), there = to(x, Device::cuda());
  auto select = compile([](const Tensor& t) { return topk(t, 256).indices; });
  for (int call = 0; call < 4; ++call) CHECK(same(select(there), topk(x, 256).indices));
  for (const int count : {1, 256, 1000}) {
    CHECK(same(topk(there, count).indices, topk(x, count).indices));
    for (const double value : {-0.0, 7.0, std::numeric_limits<double>::quiet_NaN()})
      for (const bool largest : {true, false}) {
        const Tensor equal = full({100'000}, value);
        CHECK(same(topk(to(equal, Device::cuda()), count, 0, largest).indices, arange(count)));
      }
  }
}

TEST_SUITE_END();
