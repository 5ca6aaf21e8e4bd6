// Functions that rearrange, contract and index: against the numbers that PyTorch gives, in every way that there is to
// run them; with symbolic sizes; and what they say to arguments that do not fit.
#include <algorithm>
#include <chrono>
#include <limits>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"

using namespace weft;
using namespace trace_test;

namespace {
Tensor counted(const Sizes& sizes, float first = 0) {
  Dim count = 1;
  for (const Dim size : sizes.shape()) count = count * size;
  return reshape(arange(count, {DType::f32}) + first, sizes);
}
Tensor vector(std::initializer_list<std::int64_t> numbers) { return from_list(numbers); }
template <class F>
void check_symbolic(F function, std::initializer_list<std::pair<std::int64_t, std::int64_t>> shapes) {
  auto f = compile(function, {.dynamic = true});
  for (const auto& [rows, columns] : shapes) {
    CAPTURE(rows);
    CAPTURE(columns);
    const Tensor x = counted({rows, columns});
    const Tensor expected = function(x), found = f(x);
    CHECK(found.shape().same(expected.shape()));
    CHECK(text_of(found) == text_of(expected));
  }
}
}  // namespace

TEST_CASE("a rotation costs about what a copy costs, wherever the memory of its operand ends") {
  const Tensor x = arange(1 << 20, {DType::f32}).eval();
  const auto least = [&](auto f) {
    auto compiled = compile(f);
    double milliseconds = 1e9;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      compiled(x).eval();
      const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
      milliseconds = std::min(milliseconds, passed.count());
    }
    return milliseconds;
  };
  const double copied = least([](const Tensor& x) { return -x; });
  CHECK(least([](const Tensor& x) { return roll(x, 37); }) < 15 * copied);
  CHECK(least([](const Tensor& x) { return roll(x, -37); }) < 15 * copied);
}

TEST_CASE("rearranged as PyTorch does") {
  check_every_way(
      [](const Tensor& x, const Tensor& y, const Tensor& c) {
        const Tensor v = constant(std::vector<float>{1, 2, 3}, {3}), w = constant(std::vector<float>{4, 5}, {2});
        return Answers{
            {movedim(c, 0, -1), "0 12 1 13 2 14 3 15 4 16 5 17 6 18 7 19 8 20 9 21 10 22 11 23"},
            {narrow(x, 1, -3, 2), "1 2 5 6 9 10"},
            {chunk(x, 3, 1)[1], "2 3 6 7 10 11"},
            {unbind(x, 1)[2], "2 6 10"},
            {roll(x, 1), "11 0 1 2 3 4 5 6 7 8 9 10"},
            {roll(x, -5, 1), "1 2 3 0 5 6 7 4 9 10 11 8"},
            {roll(x, 2, 0), "4 5 6 7 8 9 10 11 0 1 2 3"},
            {tril(c, 1), "0 1 0 0 4 5 6 0 8 9 10 11 12 13 0 0 16 17 18 0 20 21 22 23"},
            {triu(x), "0 1 2 3 0 5 6 7 0 0 10 11"},
            {triu(x, -1), "0 1 2 3 4 5 6 7 0 9 10 11"},
            {tril(x, -5), "0 0 0 0 0 0 0 0 0 0 0 0"},
            {diagonal(x), "0 5 10"},
            {diagonal(x, 2), "2 7"},
            {diagonal(x, -1), "4 9"},
            {diagonal(c, 1, -1, 0), "12 16 20"},
            {diagonal(x, 3), "3"},
            {diagonal(x, -2), "8"},
            {diag(v, 1), "0 1 0 0 0 0 2 0 0 0 0 3 0 0 0 0"},
            {diag(v, -2), "0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 2 0 0 0 0 0 3 0 0"},
            {diag(v), "1 0 0 0 2 0 0 0 3"},
            {diag(x, -1), "4 9"},
            {trace(x), "15"},
            {tile(y, {2}), "0 1 2 0 1 2 3 4 5 3 4 5"},
            {tile(v, {2, 1, 2}), "1 2 3 1 2 3 1 2 3 1 2 3"},
            {repeat(y, {2, 1, 2}), "0 1 2 0 1 2 3 4 5 3 4 5 0 1 2 0 1 2 3 4 5 3 4 5"},
            {repeat_interleave(y, 2, 1), "0 0 1 1 2 2 3 3 4 4 5 5"},
            {repeat_interleave(y, constant({2, 0}), 0), "0 1 2 0 1 2"},
            {repeat_interleave(y, constant({0, 3, 1}), 1), "1 1 1 2 4 4 4 5"},
            {repeat_interleave(y, 3, 0), "0 1 2 0 1 2 0 1 2 3 4 5 3 4 5 3 4 5"},
            {meshgrid({v, w})[0], "1 1 2 2 3 3"},
            {meshgrid({v, w})[1], "4 5 4 5 4 5"},
            {meshgrid({v, w}, Indexing::xy)[0], "1 2 3 1 2 3"},
            {meshgrid({v, w}, Indexing::xy)[1], "4 4 4 5 5 5"},
            {unfold(x, 1, 2), "0 1 1 2 2 3 4 5 5 6 6 7 8 9 9 10 10 11"},
            {unfold(c, 1, 2, 1), "0 4 1 5 2 6 3 7 4 8 5 9 6 10 7 11 12 16 13 17 14 18 15 19 16 20 17 21 18 22 19 23"},
            {unfold(x, -1, 3, 2), "0 1 2 4 5 6 8 9 10"},
            {pad(x, {1, 2}), "0 0 1 2 3 0 0 0 4 5 6 7 0 0 0 8 9 10 11 0 0"},
            {pad(y, {0, 1, 2, 0}, Pads::constant, -1.5),
             "-1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 0 1 2 -1.5 3 4 5 -1.5"},
            {pad(x, {3, 2}, Pads::reflect), "3 2 1 0 1 2 3 2 1 7 6 5 4 5 6 7 6 5 11 10 9 8 9 10 11 10 9"},
            {pad(c, {1, 0, 2, 1}, Pads::reflect),
             "9 8 9 10 11 5 4 5 6 7 1 0 1 2 3 5 4 5 6 7 9 8 9 10 11 5 4 5 6 7 21 20 21 22 23 17 16 17 18 19 13 12 13 "
             "14 15 17 16 17 18 19 21 20 21 22 23 17 16 17 18 19"},
            {pad(y, {2, 1}, Pads::replicate), "0 0 0 1 2 2 3 3 3 4 5 5"},
            {pad(y, {3, 2}, Pads::circular), "0 1 2 0 1 2 0 1 3 4 5 3 4 5 3 4"}};
      },
      counted({3, 4}), counted({2, 3}), counted({2, 3, 4}));
}

TEST_CASE("read and added at positions as PyTorch does") {
  check_every_way(
      [](const Tensor& x, const Tensor& c, const Tensor& rows, const Tensor& columns, const Tensor& places,
         const Tensor& source) {
        return Answers{
            {gather(x, 0, rows), "8 1 6 7 0 9 10 3"},
            {gather(x, 1, columns), "3 0 5 5 10 11"},
            {index_select(c, 1, places), "8 9 10 11 0 1 2 3 8 9 10 11 20 21 22 23 12 13 14 15 20 21 22 23"},
            {scatter_add(x, 0, rows, source), "104 102 2 110 4 5 108 110 108 114 116 11"},
            {scatter_add(x, 1, columns, source), "101 1 2 103 4 214 6 7 8 9 118 120"},
            {index_add(x, 0, places, source), "104 106 108 110 4 5 6 7 216 219 222 225"},
            {x[places - 3], "8 9 10 11 0 1 2 3 8 9 10 11"},
            {x[-1 - reshape(places, {3, 1})], "0 1 2 3 8 9 10 11 0 1 2 3"},
            {x[sum(places) - 5], "8 9 10 11"},
            {grad([](const Tensor& v) { return sum(v[-1 - arange(4) % 2] * 2); }, slice(x, 1, 0, 1)), "0 4 4"},
            {masked_fill(x, x > 6, -1), "0 1 2 3 4 5 6 -1 -1 -1 -1 -1"},
            {bincount(places, 4), "1 0 2 0"},
            {histc(x, 4, 1, 9), "2 2 2 3"},
            {weft::std(x, 1), "1.29099441 1.29099441 1.29099441"},
            {weft::std(x), "3.60555124"}};
      },
      counted({3, 4}), counted({2, 3, 4}), reshape(vector({2, 0, 1, 1, 0, 2, 2, 0}), {2, 4}),
      reshape(vector({3, 0, 1, 1, 2, 3}), {3, 2}), vector({2, 0, 2}), counted({3, 4}, 100));
}

TEST_CASE("the dtype of a sum of products depends on no size") {
  const auto of = [](const Sizes& sizes) { return ones(sizes, {DType::i32}); };
  for (const int size : {1, 3})
    for (const int other : {1, 3}) {
      CAPTURE(size);
      CAPTURE(other);
      const int most = std::max(size, other);
      const auto check = [](const Tensor& found, DType dtype, int number) {
        CHECK(found.dtype() == dtype);
        CHECK(all(found == number).item<bool>());
      };
      check(tensordot(of({size}), of({other}), 0, 0), DType::i32, most);
      check(tensordot(of({2, size}), of({other, 2}), 1), DType::i32, most);
      check(einsum("ij,j->i", {of({2, size}), of({other})}), DType::i32, most);
      check(einsum("ij,jk,j->ik", {of({2, size}), of({other, 2}), of({size})}), DType::i32, most);
      check(einsum("ij->i", {of({2, size})}), DType::i64, size);
      check(einsum("ij,jk->j", {of({2, size}), of({other, 2})}), DType::i64, 4);
    }
  const Tensor mask = ones({2, 3}, {DType::boolean});
  CHECK(einsum("ij->i", {mask}).dtype() == DType::i64);
  for (const int size : {1, 3})
    CHECK_THROWS_WITH_AS(einsum("ij,j->i", {mask, ones({size}, {DType::boolean})}),
                         doctest::Contains("[einsum] is not defined on bool"), Error);
}

TEST_CASE("sums of products over labels as PyTorch does") {
  check_every_way(
      [](const Tensor& x, const Tensor& y, const Tensor& c, const Tensor& d, const Tensor& s, const Tensor& e) {
        const Tensor v = constant(std::vector<float>{1, 2, 3}, {3}), w = constant(std::vector<float>{4, 5}, {2}),
                     q = constant(std::vector<float>{0, 1, 2, 3}, {4});
        return Answers{{einsum("ij->ji", {x}), "0 4 8 1 5 9 2 6 10 3 7 11"},
                       {einsum("ij", {x}), "0 1 2 3 4 5 6 7 8 9 10 11"},
                       {einsum("ba", {x}), "0 4 8 1 5 9 2 6 10 3 7 11"},
                       {einsum("ij->", {x}), "66"},
                       {einsum("ij,jk->ik", {y, x}), "20 23 26 29 56 68 80 92"},
                       {einsum("ij,jk", {y, x}), "20 23 26 29 56 68 80 92"},
                       {einsum("aij,ajk->aki", {c, d}), "28 76 124 34 98 162 604 780 956 658 850 1042"},
                       {einsum("i,j->ij", {v, v}), "1 2 3 2 4 6 3 6 9"},
                       {einsum("i,i", {v, v}), "14"},
                       {einsum("ii", {s}), "12"},
                       {einsum("ii->i", {s}), "0 4 8"},
                       {einsum("...ij,...jk->...ik", {c, d}), "28 34 76 98 124 162 604 658 780 850 956 1042"},
                       {einsum("...j,j->...", {c, q}), "14 38 62 86 110 134"},
                       {einsum("ij,jk,kl->il", {y, s, x}), "240 294 348 402 744 906 1068 1230"},
                       {einsum("ij,ij->j", {x, x}), "80 107 140 179"},
                       {einsum("bij,i->bj", {c, v}), "32 38 44 50 104 110 116 122"},
                       {einsum("ijj->i", {e}), "12 39"},
                       {tensordot(c, d, {0, 2}, {0, 1}), "632 692 856 948 1080 1204"},
                       {tensordot(y, x, 1), "20 23 26 29 56 68 80 92"},
                       {outer(v, w), "4 5 8 10 12 15"},
                       {dot(v, v), "14"}};
      },
      counted({3, 4}), counted({2, 3}), counted({2, 3, 4}), counted({2, 4, 2}), counted({3, 3}), counted({2, 3, 3}));
}

TEST_CASE("sorted as PyTorch does: NaN is the greatest, equal elements stay in their order") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  check_every_way(
      [](const Tensor& x, const Tensor& y, const Tensor& n) {
        return Answers{{argsort(x), "1 4 0 3 2 3 4 1 2 0"},
                       {argsort(x, -1, true), "2 0 3 4 1 0 1 2 3 4"},
                       {sort(x, 0).values, "3 -1 2 -0 0 inf 2 nan 3 0"},
                       {sort(x, 0, true).indices, "1 1 0 0 0 0 0 1 1 1"},
                       {argsort(y), "1 4 2 0 3 3 1 2 0 4"},
                       {argsort(y, -1, true), "0 3 2 4 1 4 0 1 2 3"},
                       {sort(y, 0).values, "3 -1 2 -1 0 5 2 2 3 7"},
                       {sort(y, 0, true).indices, "1 1 0 0 1 0 0 1 1 0"},
                       {argsort(n), "1 2 0 2 0 1"},
                       {argsort(n, -1, true), "0 1 2 1 0 2"},
                       {sort(n, 0).values, "0 1 -3 4 9 1"},
                       {sort(n, 0, true).indices, "0 1 0 1 0 1"},
                       {topk(y, 3).values, "3 3 2 7 5 2"},
                       {topk(y, 2, 1, false).values, "-1 0 -1 2"},
                       {kthvalue(y, 2).values, "0 2"},
                       {kthvalue(y, 4, 1, true).indices, "0 0"},
                       {median(y, 1).values, "2 2"},
                       {median(x, 1).values, "nan 2"},
                       {median(y), "2"},
                       {median(n, 0).values, "0 1 -3"},
                       {median(x), "nan"},
                       {quantile(y, 0.375, 1), "1 2"},
                       {quantile(y, 0.5), "2"},
                       {quantile(x, 0.25, 0, true), "inf -0.25 nan 0.75 0"},
                       {quantile(y, 1, 0), "5 2 2 3 7"},
                       {quantile(y, {0.375, 1, 0.5}, 1), "1 2 3 7 2 2"},
                       {quantile(y, std::vector{0.5, 0.25}), "2 0.5"},
                       {quantile(y, {0.25, 0.75}, 0, true), "3.5 -0.25 2 0 1.75 4.5 1.25 2 2 5.25"},
                       {quantile(x, {1, 0.5}, 1), "nan inf nan 2"},
                       {quantile(y[0][0], {0.5, 1}), "3 3"},
                       {grad(
                            [](const Tensor& v) {
                              return sum(square(quantile(v, {0.25, 1}, 1)));
                            },
                            y),
                        "0 0 0 6 0 0 4 0 0 14"}};
      },
      from_list<float>({3, -1, nan, 3, 0, inf, 2, 2, -0.f, 0.f}, {2, 5}),
      from_list<float>({3, -1, 2, 3, 0, 5, 2, 2, -1, 7}, {2, 5}), reshape(vector({4, 1, 1, 0, 9, -3}), {2, 3}));
}

TEST_CASE("rows that are long, of every dtype, in symbolic sizes") {
  for (DType dtype :
       {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = cast(reshape((arange(3 * 1000) * 7919) % 253, {3, 1000}), dtype);
    const auto [values, indices] = sort(x);
    CHECK(values.dtype() == dtype);
    const Tensor wide = cast(values, DType::f64);
    CHECK(all(slice(wide, 1, 1) >= slice(wide, 1, 0, -1)).item<bool>());
    CHECK(all((slice(wide, 1, 1) != slice(wide, 1, 0, -1)) | (slice(indices, 1, 1) > slice(indices, 1, 0, -1)))
              .item<bool>());
    CHECK(all(sort(indices).values == arange(1000)).item<bool>());
  }
  check_symbolic([](const Tensor& x) { return topk(sin(x), 2, 0).values + sum(cast(argsort(x, 1, true), DType::f32)); },
                 {{3, 4}, {5, 2}, {40, 300}});
  CHECK(argsort(zeros({0, 3})).element_count() == Dim(0));
  CHECK(topk(zeros({2, 3}), 0).values.element_count() == Dim(0));
}

TEST_CASE("a part of the order is what the whole order has there") {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor specials = from_list<double>({nan, inf, 0, -nan, -inf, -0., inf, nan, 0, -0., -inf});
  const Tensor rows = reshape((arange(4 * 489) * 7919) % 97 - 48, {4, 489});  // ties everywhere
  const Tensor reals = concat({cast(rows, DType::f64), expand(specials, {4, 11})}, 1),
               whole = (arange(4 * 500) * 7919) % 97;
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::i32, DType::i64, DType::u8}) {
    CAPTURE(info(dtype).name);
    const Tensor x = cast(is_floating(dtype) ? reals : reshape(whole, {4, 500}), dtype).eval();
    const auto check = [&](const Tensor& x) {
      const std::int64_t n = static_cast<std::int64_t>(x.size(1));
      for (const bool descending : {false, true}) {
        const Tensor order = argsort(x, 1, descending);
        for (const std::int64_t k : {1, 2, 10, 31}) {
          CAPTURE(k);
          CHECK(all(topk(x, k, 1, descending).indices == slice(order, 1, 0, k)).item<bool>());
          if (!descending) {
            CHECK(all(kthvalue(x, k, 1, true).indices == slice(order, 1, k - 1, k)).item<bool>());
            CHECK(all(kthvalue(x, n + 1 - k, 1, true).indices == slice(order, 1, n - k, n - k + 1)).item<bool>());
          }
        }
      }
    };
    check(x);
    check(cast(reshape((arange(2 * 500000) * 7919) % 1000003, {2, 500000}), dtype).eval());
  }
  // Of symbolic sizes, compiled, along another axis, beside the eager result.
  check_symbolic(
      [](const Tensor& x) { return topk(sin(x), 3, 0).values + kthvalue(cos(x), 2, 0).values + quantile(x, 0.4, 0); },
      {{40, 4}, {50, 2}, {400, 3}, {3, 5}});
}

TEST_CASE("elements of 32 bits and less have the order that their numbers have in 64") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor specials = from_list<float>({inf, 0, -nan, -inf, -0.f, 1e-45f, nan, -1e-45f, 3e38f, -3e38f});
  const Tensor reals = concat({specials, sin(arange(300) * 1.5), specials}, 0);
  const Tensor integers = (arange(-500, 500) * 7919) % 251 - 125;
  const auto check = [](const Tensor& narrow, DType wide) {
    for (const bool descending : {false, true})
      CHECK(all(argsort(narrow, 0, descending) == argsort(cast(narrow, wide), 0, descending)).item<bool>());
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) check(cast(reals, dtype), DType::f64);
  for (const DType dtype : {DType::i8, DType::i32}) check(cast(integers, dtype), DType::i64);
  check(cast(integers + 125, DType::u8), DType::i64);
  check(from_list<std::int32_t>({0, INT32_MAX, -1, INT32_MIN, 1, INT32_MAX, INT32_MIN}), DType::i64);
}

TEST_CASE("with symbolic sizes") {
  check_symbolic([](const Tensor& x) { return roll(roll(x, 2, 0), -7, 1) + tril(x, 1) - triu(x, -1); },
                 {{3, 4}, {5, 2}, {7, 7}});
  check_symbolic([](const Tensor& x) { return diagonal(x) + diagonal(transpose(x)); }, {{3, 4}, {5, 2}, {6, 6}});
  check_symbolic([](const Tensor& x) { return diag(select(x, 1, 0), 2) + trace(x); }, {{3, 4}, {5, 2}, {6, 6}});
  check_symbolic([](const Tensor& x) { return tile(repeat_interleave(x, 2, 1), {2, 1}); }, {{3, 4}, {5, 2}});
  check_symbolic(
      [](const Tensor& x) {
        return pad(pad(x, {1, 1, 2, 0}, Pads::reflect), {2, 1}, Pads::circular);
      },
      {{3, 4}, {5, 2}});
  check_symbolic(
      [](const Tensor& x) {
        return pad(pad(x, {1, 0}, Pads::replicate), {0, 1, 1, 0}, Pads::constant, 2);
      },
      {{3, 4}, {5, 2}});
  check_symbolic([](const Tensor& x) { return unfold(x, 0, 2) + movedim(unfold(x, 0, 2), 2, 0)[1][0][0]; },
                 {{3, 4}, {5, 2}});
  check_symbolic(
      [](const Tensor& x) {
        return einsum("ij,kj->ik", {x, x}) + einsum("ij,ij->", {x, x});
      },
      {{3, 4}, {5, 2}});
  check_symbolic(
      [](const Tensor& x) { return gather(x, 1, argmax(x, 1, true)) + sum(index_select(x, 0, argmin(x, 0))); },
      {{3, 4}, {5, 5}});
  check_symbolic([](const Tensor& x) { return scatter_add(x, 0, cast(x * 0, DType::i64), x); }, {{3, 4}, {5, 2}});
}

TEST_CASE("empty tensors and axes of size 1") {
  const Tensor none = zeros({0, 3});
  for (const Tensor& each :
       {roll(none, 1, 0), tril(none), tile(none, {2, 1}), repeat_interleave(none, 2, 0),
        pad(none, {0, 0}, Pads::reflect), index_select(counted({2, 3}), 0, zeros({0}, {DType::i64})),
        gather(none, 1, zeros({0, 2}, {DType::i64}))})
    CHECK(each.element_count() == Dim(0));
  CHECK(numbers_of(sum(diagonal(none)) + sum(diagonal(counted({2, 3}), 5))) == Numbers{0});
  CHECK(numbers_of(einsum("ij,j->i", {none, counted({3})})).empty());
  CHECK(numbers_of(einsum("ij,ik->jk", {none, none})) == Numbers(9, 0));
  CHECK(numbers_of(einsum("ij,kj->ik", {counted({2, 1}), counted({2, 3})})) == Numbers{0, 0, 3, 12});
  CHECK(numbers_of(scatter_add(counted({2, 2}), 0, zeros({0, 2}, {DType::i64}), zeros({0, 2}))) == Numbers{0, 1, 2, 3});
  CHECK(unbind(none, 0).empty());
  CHECK(chunk(none, 2, 0).size() == 1);
}

TEST_CASE("dtypes stay, and integers and bool pass through") {
  for (DType dtype : {DType::boolean, DType::i32, DType::f64, DType::bf16}) {
    const Tensor x = cast(counted({3, 3}), dtype);
    for (const Tensor& each :
         {roll(x, 1), tril(x), diag(diagonal(x)), tile(x, {2}), pad(x, {1, 1}, Pads::constant, 1), unfold(x, 0, 2),
          masked_fill(x, x == x, 1), gather(x, 0, zeros({1, 3}, {DType::i64})), pad(x, {1, 1}, Pads::reflect)})
      CHECK(each.dtype() == dtype);
  }
  CHECK(text_of(einsum("ij,jk->ik", {cast(counted({2, 2}), DType::i64), cast(counted({2, 2}), DType::i64)})) ==
        "2 3 6 11");
}

TEST_CASE("arguments that do not fit are refused with the reason") {
  const Tensor x = counted({3, 4}), v = counted({3});
  using weft::test::refused;
  refused([&] { tril(v); }, "[tril] needs two axes at least, it is f32[3]");
  refused([&] { narrow(x, 1, 2, 3); }, "[narrow] 3 elements from 2 of axis 1 of f32[3,4]");
  refused([&] { chunk(x, 0); }, "[chunk] the number of parts is 0");
  refused([&] { diagonal(x, 0, 1, 1); }, "[diagonal] both axes are 1");
  refused([&] { repeat(x, {2}); }, "[repeat] 1 count for f32[3,4]");
  refused([&] { tile(x, {2, -1}); }, "[tile] a count is negative: -1");
  refused([&] { unfold(x, 0, 4); }, "[unfold] a window of 4 is longer than axis 0 of f32[3,4]");
  refused([&] { meshgrid({x}); }, "[meshgrid] needs vectors, one is f32[3,4]");
  refused([&] { pad(x, {4, 0}, Pads::reflect); }, "[pad] axis 1 of f32[3,4] is too short to be padded by 4 and 0");
  refused([&] { pad(x, {1, 0, 1}); }, "[pad] 3 widths");
  refused([&] { gather(x, 0, vector({0})); }, "[gather] the index i64[1] does not fit f32[3,4] beside axis 0");
  refused([&] { gather(x, 0, v); }, "[gather] the index must be an integer, it is f32[3]");
  const Tensor row = reshape(vector({0, 1, 2, 3}), {1, 4}), four = reshape(vector({4}), {1, 1});
  refused([&] { gather(x, 0, row).eval(); }, "[gather] an index is out of range [0, 3)");
  refused([&] { scatter_add(x, 1, four, x).eval(); }, "[scatter_add] an index is out of range [0, 4)");
  refused([&] { index_add(x, 0, vector({1}), x); }, "[index_add] the source is f32[3,4], not f32[1,4]");
  refused([&] { index_select(x, 0, vector({-1})).eval(); }, "[index_select] an index is out of range");
  refused([&] { masked_fill(x, x, 1); }, "[masked_fill] the mask must be bool, it is f32[3,4]");
  refused([&] { bincount(vector({4}), 4).eval(); }, "[bincount] an index is out of range [0, 4)");
  refused([&] { histc(x, 0, 0, 1); }, "[histc] the number of bins is 0");
  refused([&] { topk(x, 5); }, "[topk] 5 elements of axis -1 of f32[3,4]");
  refused([&] { kthvalue(x, 0); }, "[kthvalue] element 0, from 1, of axis -1 of f32[3,4]");
  refused([&] { median(zeros({2, 0}), 1); }, "[median] of no elements: f32[2,0]");
  refused([&] { quantile(x, 1.5); }, "[quantile] q is 1.5, which is not in 0 to 1");
  refused([&] { quantile(x, {0.5, -0.5}); }, "[quantile] q is -0.5, which is not in 0 to 1");
  refused([&] { quantile(x, std::vector<double>(), 0); }, "[quantile] of no q");
  refused([&] { quantile(vector({1}), 0.5); }, "[quantile] needs a floating dtype, it is i64[1]");
  refused([&] { argsort(zeros({}), 1); }, "[argsort] axis 1 is out of range for 1 axis");
  refused([&] { einsum("ij,jk", {x}); }, "[einsum] the equation 'ij,jk' has 2 operands, and there are 1");
  refused([&] { einsum("ijk->i", {x}); }, "[einsum] 'ijk' names 3 axes of f32[3,4]");
  refused([&] { einsum("ij->k", {x}); }, "[einsum] no operand has the result's label 'k'");
  refused([&] { einsum("ij->ii", {x}); }, "[einsum] the result has the label 'i' twice");
  refused([&] { einsum("i?->i", {x}); }, "[einsum] the equation has '?'");
  refused([&] { einsum("ij,ij->ij", {x, transpose(x)}); }, "[einsum] sizes of one label differ: f32[3,4] x f32[4,3]");
  refused([&] { einsum("ii", {x}); }, "[einsum] axes 0 and 1 of f32[3,4] have one label and different sizes");
  refused([&] { tensordot(x, x, 3); }, "[tensordot] the number of axes is 3");
  refused([&] { outer(x, v); }, "[outer] needs two vectors: f32[3,4] x f32[3]");
  refused([&] { dot(v, counted({4})); }, "[dot] needs two vectors of one length");
  refused([&] { trace(v); }, "[trace] needs a matrix, it is f32[3]");
}
