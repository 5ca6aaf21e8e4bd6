// Reading and writing by several subscripts, and at flat positions: the elements where PyTorch has them, in every way
// that there is to run them; by masks plainly, since they are read at once.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/indexing.hpp"
#include "weft/nn.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

namespace {
Tensor vector(std::vector<std::int64_t> numbers) {
  return constant(numbers, {static_cast<std::int64_t>(numbers.size())});
}
}  // namespace

TEST_CASE("indices and whole axes together") {
  check_every_size(
      [](const Tensor& x, const Tensor& i, const Tensor& j) {
        return Answers{
            {index(x, {i % 2, i}), "16 17 18 19 0 1 2 3 20 21 22 23"},
            {index(x, {j, {}, i}), "1 5 9 0 4 8 3 7 11 13 17 21 12 16 20 15 19 23"},
            {index(x, {{}, i}), "4 5 6 7 0 1 2 3 8 9 10 11 16 17 18 19 12 13 14 15 20 21 22 23"},
            {index(x, {{}, i, j}), "4 0 8 5 1 9 16 12 20 17 13 21"},
            {index(x, {{}, {}, j}), "0 1 4 5 8 9 12 13 16 17 20 21"},
            {index(x, {j}), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"},
            {index(cast(x, DType::i8), {{}, cast(i, DType::i32), i}), "5 0 11 17 12 23"},
            {index_put(x, {{}, i}, 100),
             "100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100 100"},
            {index_put(x, {j, {}, i}, slice(reshape(x, {4, 6}), 0, 0, 1)[0][5]),
             "5 5 2 5 5 5 6 5 5 5 10 5 5 5 14 5 5 5 18 5 5 5 22 5"},
            {index_put(x, {{}, {}, vector({1, 1})}, x[1][0][0], true),
             "0 25 2 3 4 29 6 7 8 33 10 11 12 37 14 15 16 41 18 19 20 45 22 23"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(index(v, {j, {}, i})));
                 },
                 x),
             "0 2 0 6 8 10 0 14 16 18 0 22 24 26 0 30 32 34 0 38 40 42 0 46"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(index(v, {{}, i, i})));
                 },
                 x),
             "0 0 0 0 0 10 0 0 0 0 0 22 24 0 0 0 0 34 0 0 0 0 0 46"}};
      },
      reshape(arange(24, {DType::f32}), {2, 3, 4}), from_list<std::int64_t>({1, 0, -1}),
      from_list<std::int64_t>({{0}, {1}}));
}

// Expected numbers are NumPy's, and PyTorch's where a number is beside an index tensor.
TEST_CASE("numbers, slices, new axes and the ellipsis beside indices") {
  check_every_size(
      [](const Tensor& x, const Tensor& i, const Tensor& j) {
        const auto same_shape = [](const Tensor& value, Shape shape) {
          return value.shape() == shape ? value : value[99];
        };
        return Answers{
            {same_shape(index(x, {ellipsis, -1}), Shape::of(2, 3)), "3 7 11 15 19 23"},
            {index(x, {{}, -1}), "8 9 10 11 20 21 22 23"},
            {index(x, {-1}), "12 13 14 15 16 17 18 19 20 21 22 23"},
            {same_shape(index(x, {{}, newaxis}), Shape::of(2, 1, 3, 4)),
             "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"},
            {same_shape(index(x, {newaxis, ellipsis, newaxis, 0}), Shape::of(1, 2, 3, 1)), "0 4 8 12 16 20"},
            {index(x, {1, {}, Range{.step = 2}}), "12 14 16 18 20 22"},
            {index(x, {{}, Range{.step = -1}, Range{1, 3}}), "9 10 5 6 1 2 21 22 17 18 13 14"},
            {index(x, {-1, ellipsis, -2}), "14 18 22"},
            {index(x, {{}, Range{-3, -1}, -1}), "3 7 15 19"},
            {index(x, {i % 2, 0}), "12 13 14 15 0 1 2 3 12 13 14 15"},
            {index(x, {{}, 0, i}), "1 0 3 13 12 15"},
            {same_shape(index(x, {0, {}, i}), Shape::of(3, 3)), "1 0 3 5 4 7 9 8 11"},
            {index(x, {Index(-2), {}, i}), "1 0 3 5 4 7 9 8 11"},
            {index(x, {i % 2, {}, 0}), "12 16 20 0 4 8 12 16 20"},
            {index(x, {ellipsis, i}), "1 0 3 5 4 7 9 8 11 13 12 15 17 16 19 21 20 23"},
            {same_shape(index(x, {{}, newaxis, i}), Shape::of(2, 1, 3, 4)),
             "4 5 6 7 0 1 2 3 8 9 10 11 16 17 18 19 12 13 14 15 20 21 22 23"},
            {same_shape(index(x, {i % 2, newaxis, i}), Shape::of(3, 1, 4)), "16 17 18 19 0 1 2 3 20 21 22 23"},
            {index(x, {{}, Range{1}, i}), "5 4 7 9 8 11 17 16 19 21 20 23"},
            {index(x, {j, ellipsis, i}), "1 5 9 0 4 8 3 7 11 13 17 21 12 16 20 15 19 23"},
            {index(x, {i % 2, Range{1}, -1}), "19 23 7 11 19 23"},
            {index(x, {ellipsis, i, Range{0, 3, 2}}), "4 6 0 2 8 10 16 18 12 14 20 22"},
            {same_shape(index(x, {1, Range{1}, newaxis, i}), Shape::of(2, 1, 3)), "17 16 19 21 20 23"},
            {index(x, std::vector<Subscript>()), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(index(v, {{}, Range{.step = 2}, -1})));
                 },
                 x),
             "0 0 0 6 0 0 0 0 0 0 0 22 0 0 0 30 0 0 0 0 0 0 0 46"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(index(v, {0, newaxis, i % 2})));
                 },
                 x),
             "0 2 4 6 16 20 24 28 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"}};
      },
      reshape(arange(24, {DType::f32}), {2, 3, 4}), from_list<std::int64_t>({1, 0, -1}),
      from_list<std::int64_t>({{0}, {1}}));
}

TEST_CASE("writing at numbers, slices, new axes and the ellipsis") {
  check_every_size(
      [](const Tensor& x, const Tensor& i) {
        const auto minus = [](Dim count, Sizes sizes) { return reshape(arange(count) * -1, sizes); };
        return Answers{
            {index_put(x, {ellipsis, -1}, 100),
             "0 1 2 100 4 5 6 100 8 9 10 100 12 13 14 100 16 17 18 100 20 21 22 100"},
            {index_put(x, {{}, -1}, minus(4, {4})), "0 1 2 3 4 5 6 7 0 -1 -2 -3 12 13 14 15 16 17 18 19 0 -1 -2 -3"},
            {index_put(x, {{}, Range{1}, Range{.step = 2}}, -1),
             "0 1 2 3 -1 5 -1 7 -1 9 -1 11 12 13 14 15 -1 17 -1 19 -1 21 -1 23"},
            {index_put(x, {{}, Range{.step = -1}, Range{1, 3}}, minus(6, {3, 2})),
             "0 -4 -5 3 4 -2 -3 7 8 0 -1 11 12 -4 -5 15 16 -2 -3 19 20 0 -1 23"},
            {index_put(x, {1, ellipsis, newaxis, 1}, minus(4, {4, 1})[0] - 5 + minus(3, {3, 1})),
             "0 1 2 3 4 5 6 7 8 9 10 11 12 -5 14 15 16 -6 18 19 20 -7 22 23"},
            {index_put(x, {0, i}, minus(12, {3, 4})),
             "-4 -5 -6 -7 0 -1 -2 -3 -8 -9 -10 -11 12 13 14 15 16 17 18 19 20 21 22 23"},
            {index_put(x, {0, {}, i}, minus(9, {3, 3})),
             "-1 0 2 -2 -4 -3 6 -5 -7 -6 10 -8 12 13 14 15 16 17 18 19 20 21 22 23"},
            {index_put(x, {{}, Range{1}, i}, -5), "0 1 2 3 -5 -5 6 -5 -5 -5 10 -5 12 13 14 15 -5 -5 18 -5 -5 -5 22 -5"},
            {index_put(x, {0, i % 2, i}, minus(4, {4})[0] - 1 + minus(3, {3})),
             "-2 1 2 3 4 -1 6 -3 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"},
            {index_put(x, {1, Range{1}, i % 2}, 1, true),
             "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 17 19 18 19 21 23 22 23"},
            {index_put(x, {ellipsis, 0}, 10, true), "10 1 2 3 14 5 6 7 18 9 10 11 22 13 14 15 26 17 18 19 30 21 22 23"},
            {index_put(x, {{}, newaxis, i, -2}, 7), "0 1 7 3 4 5 7 7 8 9 7 11 12 13 7 15 16 17 7 19 20 21 7 23"},
            {index_put(x, {-1, Range{.step = 2}, Range{.step = -3}}, minus(4, {2, 2}) - 1),
             "0 1 2 3 4 5 6 7 8 9 10 11 -2 13 14 -1 16 17 18 19 -4 21 22 -3"},
            {index_put(x, {0, 0, 0}, 99), "99 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"},
            {index_put(x, {Index(1), 0}, 99), "0 1 2 3 4 5 6 7 8 9 10 11 99 99 99 99 16 17 18 19 20 21 22 23"},
            {index_put(x > 21, {ellipsis, Range{1, 3}}, slice(x, 2, 0, 2) < 6, true),
             "0 1 1 0 0 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(index_put(v, {{}, Range{1}, -1}, v[0][0][1])));
                 },
                 x),
             "0 10 4 6 8 10 12 0 16 18 20 0 24 26 28 30 32 34 36 0 40 42 44 0"}};
      },
      reshape(arange(24, {DType::f32}), {2, 3, 4}), from_list<std::int64_t>({1, 0, -1}));
}

TEST_CASE("masks beside indices and whole axes") {
  const auto f = [](const Tensor& x, const Tensor& i, const Tensor& j, const Tensor& m, const Tensor& n) {
    return Answers{
        {index(x, {m}), "0 1 2 3 8 9 10 11 20 21 22 23"},
        {index(x, {m, vector({0, 1, 2})}), "0 9 22"},
        {index(x, {m, n}), "0 10 23"},
        {index(x, {m, 1}), "1 9 21"},
        {index(x, {m, -1}), "3 11 23"},
        {index(x, {ellipsis, n}), "0 2 3 4 6 7 8 10 11 12 14 15 16 18 19 20 22 23"},
        {index(x, {1, {}, n}), "12 14 15 16 18 19 20 22 23"},
        {index(x, {{}, Range{1}, n}), "4 6 7 8 10 11 16 18 19 20 22 23"},
        {index(x, {newaxis, m}), "0 1 2 3 8 9 10 11 20 21 22 23"},
        {index(x, {m, newaxis, Range{.step = 2}}), "0 2 8 10 20 22"},
        {index(x, {{}, -1, n}), "8 10 11 20 22 23"},
        {index_put(x, {m, 1}, -1), "0 -1 2 3 4 5 6 7 8 -1 10 11 12 13 14 15 16 17 18 19 20 -1 22 23"},
        {index_put(x, {ellipsis, n}, 5, true), "5 1 7 8 9 5 11 12 13 9 15 16 17 13 19 20 21 17 23 24 25 21 27 28"},
        {index_put(x, {{}, Range{1}, n}, vector_of({7, 8, 9})),
         "0 1 2 3 7 5 8 9 7 9 8 9 12 13 14 15 7 17 8 9 7 21 8 9"},
        {index(x, {{}, i, n}), "4 2 11 16 14 23"},
        {index(x, {{}, {}, n}), "0 2 3 4 6 7 8 10 11 12 14 15 16 18 19 20 22 23"},
        {index(x, {vector({1}), {}, n}), "12 16 20 14 18 22 15 19 23"},
        {index(x, {j, {}, n}), "0 4 8 2 6 10 3 7 11 12 16 20 14 18 22 15 19 23"},
        {index_put(x, {m}, -1), "-1 -1 -1 -1 4 5 6 7 -1 -1 -1 -1 12 13 14 15 16 17 18 19 -1 -1 -1 -1"},
        {index_put(x, {{}, {}, n}, vector_of({7, 8, 9})), "7 1 8 9 7 5 8 9 7 9 8 9 7 13 8 9 7 17 8 9 7 21 8 9"},
        {index_put(x, {m, vector({0, 1, 2})}, 5, true),
         "5 1 2 3 4 5 6 7 8 14 10 11 12 13 14 15 16 17 18 19 20 21 27 23"},
        {grad(
             [&](const Tensor& v) {
               return sum(square(index(v, {m, n})));
             },
             x),
         "0 0 0 0 0 0 0 0 0 0 20 0 0 0 0 0 0 0 0 0 0 0 0 46"}};
  };
  const Answers answers =
      f(reshape(arange(24, {DType::f32}), {2, 3, 4}), from_list<std::int64_t>({1, 0, -1}),
        from_list<std::int64_t>({{0}, {1}}), from_list<int>({{1, 0, 1}, {0, 0, 1}}) > 0, from_list({1, 0, 1, 1}) > 0);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CAPTURE(i);
    CHECK(text_of(answers[i].value) == answers[i].expected);
  }
}

TEST_CASE("put, and slices and elements that are reduced") {
  check_every_size(
      [](const Tensor& x, const Tensor& s, const Tensor& f, const Tensor& i, const Tensor& j, const Tensor& k,
         const Tensor& fi) {
        return Answers{
            {put(x, vector({-1, 0, 5, 0}), s[0]), "0.5 2 3 4 5 0 7 8 9 10 11 -1"},
            {put(x, vector({-1, 0, 5, 0}), s[0], true), "1 2 3 4 5 6 7 8 9 10 11 11"},
            {put(x, reshape(vector({1, 2, 3, 4}), {2, 2}), s[1]), "1 1 1.5 2 2.5 6 7 8 9 10 11 12"},
            {put(cast(x, DType::i32), vector({1}), constant({7})), "1 7 3 4 5 6 7 8 9 10 11 12"},
            {scatter_reduce(x, 0, i, s, ScatterReduction::prod, true), "1 -1.5 3 4 5 6 14 8 -9 10 0 15"},
            {scatter_reduce(x, 0, i, s, ScatterReduction::prod, false), "1 -0.75 3 4 5 6 2 8 -1 10 0 1.25"},
            {scatter_reduce(cast(x, DType::i32), 0, i, cast(s * 2, DType::i32), ScatterReduction::prod),
             "1 -6 3 4 5 6 28 8 -36 10 0 60"},
            {scatter_reduce(x, 0, slice(i, 0, 0, 0), s, ScatterReduction::prod), "1 2 3 4 5 6 7 8 9 10 11 12"},
            {scatter_reduce(slice(x[0], 0, 0, 3), 0, fi, f, ScatterReduction::prod), "-6 0 0"},
            {index_reduce(x, 0, j, s, ScatterReduction::prod, true), "1 2 3 4 5 6 7 8 -9 -7.5 0 15"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::prod, true),
             "-3 16 3 4 -35 288 7 8 -99 1200 11 12"},
            {index_reduce(x, 0, j, s, ScatterReduction::prod, false), "1 2 3 4 5 6 7 8 -1 -0.75 0 1.25"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::prod, false),
             "-3 8 3 4 -7 48 7 8 -11 120 11 12"},
            {index_reduce(x, 0, j, s, ScatterReduction::mean, true), "1 2 3 4 5 6 7 8 3 3.66666675 4.33333349 5"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::mean, true),
             "-1 -1.33333337 3 4 -1 -2.66666675 7 8 -1 -4 11 12"},
            {index_reduce(x, 0, j, s, ScatterReduction::mean, false), "1 2 3 4 5 6 7 8 0 0.5 1 1.5"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::mean, false),
             "-3 -3 3 4 -7 -7 7 8 -11 -11 11 12"},
            {index_reduce(x, 0, j, s, ScatterReduction::amax, true), "1 2 3 4 5 6 7 8 9 10 11 12"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::amax, true), "1 2 3 4 5 6 7 8 9 10 11 12"},
            {index_reduce(x, 0, j, s, ScatterReduction::amax, false), "1 2 3 4 5 6 7 8 1 1.5 2 2.5"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::amax, false),
             "-3 -2 3 4 -7 -6 7 8 -11 -10 11 12"},
            {index_reduce(x, 0, j, s, ScatterReduction::amin, true), "1 2 3 4 5 6 7 8 -1 -0.5 0 0.5"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::amin, true),
             "-3 -4 3 4 -7 -8 7 8 -11 -12 11 12"},
            {index_reduce(x, 0, j, s, ScatterReduction::amin, false), "1 2 3 4 5 6 7 8 -1 -0.5 0 0.5"},
            {index_reduce(x, 1, k, slice(x, 1, 1) * -1, ScatterReduction::amin, false),
             "-3 -4 3 4 -7 -8 7 8 -11 -12 11 12"},
            {grad([&](const Tensor& v) { return sum(square(scatter_reduce(x, 0, i, v, ScatterReduction::prod))); }, s),
             "-162 -9 0 900 162 3 196 180"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(scatter_reduce(v, 0, i, s, ScatterReduction::prod, false)));
                 },
                 x),
             "2 0 6 8 10 12 0 16 0 20 0 0"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(scatter_reduce(slice(x[0], 0, 0, 3), 0, fi, v + 0.5, ScatterReduction::prod)));
                 },
                 f),
             "117.1875 1 70.3125 9 1 -70.3125"},
            {grad([&](const Tensor& v) { return sum(square(index_reduce(v, 0, j, s, ScatterReduction::prod))); }, x),
             "2 4 6 8 10 12 14 16 18 11.25 0 37.5"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(put(v, vector({-1, 0, 5, 0}), s[0], true)));
                 },
                 x),
             "2 4 6 8 10 12 14 16 18 20 22 22"},
            {grad(
                 [&](const Tensor& v) {
                   return sum(square(put(x, vector({-1, 0, 5, 1}), v[0])));
                 },
                 s),
             "-2 -1 0 1 0 0 0 0"}};
      },
      reshape(arange(12, {DType::f32}) + 1, {3, 4}), reshape(arange(8, {DType::f32}) * 0.5 - 1, {2, 4}),
      vector_of({1, 0, 2, 0, 0, -3}), from_list<std::int64_t>({{2, 0, 2, 2}, {2, 0, 1, 2}}),
      from_list<std::int64_t>({2, 2}), from_list<std::int64_t>({1, 0, 1}), from_list<std::int64_t>({0, 1, 0, 2, 1, 0}));
}

TEST_CASE("products of what meets: all dtypes, rows of any number") {
  const Tensor at = from_list<std::int64_t>({1, 0, 1, 1});
  const auto products = [&](const Tensor& x, const Tensor& u) {
    return text_of(scatter_reduce(x, 0, at, u, ScatterReduction::prod));
  };
  CHECK(products(cast(ones({3}), DType::f16), cast(vector_of({300, 1, 300, 0.5}), DType::f16)) == "1 44992 1");
  CHECK(products(cast(ones({2}), DType::u8), from_list<std::uint8_t>({20, 3, 20, 1})) == "3 144");
  CHECK(products(ones({2}) > 0, from_list({1, 1, 0, 1}) > 0) == "1 0");
  CHECK(products(ones({2}, {DType::i64}), from_list<std::int64_t>({1ll << 31, 3, 1ll << 31, -1})) ==
        "3 -4.6116860184273879e+18");
  auto any_size = compile([](const Tensor& x, const Tensor& at,
                             const Tensor& u) { return index_reduce(x, 0, at, u, ScatterReduction::prod); },
                          {.dynamic = true});
  for (const int size : {1, 2, 3, 5, 33, 64}) {
    CAPTURE(size);
    const Tensor u = ones({size, 2}) * 2;
    const double product = std::ldexp(1.0, size);
    const Tensor result = any_size(ones({4, 2}), zeros({size}, {DType::i64}) + 3, u);
    CHECK(result[3][1].item() == product);
    CHECK(result[2][0].item() == 1);
  }
}

TEST_CASE("subscripts that do not fit") {
  const Tensor x = ones({2, 3}), mask = ones({2, 3}) > 0;
  refused([&] { index(x, {arange(1), arange(1), arange(1)}); }, "[index] 3 subscripts for f32[2,3]");
  refused([&] { index(x, {mask, arange(1)}); }, "[index] 3 subscripts for f32[2,3]");
  refused([&] { index(x, {0, ellipsis, 0, 0}); }, "[index] 3 subscripts for f32[2,3]");
  refused([&] { index(x, {ellipsis, 0, ellipsis}); }, "[index] more than one ellipsis");
  refused([&] { index(x, {ellipsis, 3}); }, "[index] index 3 is out of range for axis 1 of f32[2,3]");
  refused([&] { index(x, {newaxis, -3}); }, "[index] index -3 is out of range for axis 0 of f32[2,3]");
  refused([&] { index(x, {Range{.step = 0}}); }, "[index] the step is 0");
  refused([&] { index_put(x, {{}, 3, 0}, 1); }, "[index_put] 3 subscripts for f32[2,3]");
  refused([&] { index_put(x, {2, arange(1)}, 1); }, "[index_put] index 2 is out of range for axis 0 of f32[2,3]");
  refused([&] { index_put(x, {0, Range{0, 2}}, ones({3})); }, "[index_put]");
  refused([&] { index_put(x, {Index(2), -1}, 1); }, "[index_put] an index is out of range [-2, 2)");
  refused([&] { index(x, {{}, mask}); }, "the mask bool[2,3] does not fit the axes from 1 on of f32[2,3]");
  refused([&] { index(x, {ones({3}) > 0}); }, "the mask bool[3] does not fit");
  refused([&] { index(x, {{}, vector({3})}); }, "[index] an index is out of range [-3, 3)");
  refused([&] { index(x, {ones({2})}); }, "[index] the index must be an integer, it is f32[2]");
  refused([&] { index(x, {arange(2), arange(3)}); }, "[index]");
  auto compiled = compile([](const Tensor& x, const Tensor& mask) { return index(x, {mask}); }, {.fullgraph = true});
  CHECK(contains(message_of([&] { compiled(x, mask); }), "[index] the size of the result depends on values"));
  refused([&] { put(x, arange(2), ones({3})); }, "[put] the index is i64[2], the source f32[3]");
  refused([&] { put(x, vector({6}), ones({1})); }, "[put] an index is out of range [-6, 6)");
  refused([&] { put(cast(x, DType::i32), vector({1}), ones({1})); }, "a floating source would be cut to i32");
  refused([&] { index_reduce(x, 0, arange(2), x, ScatterReduction::sum); }, "makes no sums: index_add does");
  refused([&] { index_reduce(x, 0, arange(1), x, ScatterReduction::prod); }, "the source is f32[2,3], not f32[1,3]");
  refused([&] { index_reduce(x, 0, x, x, ScatterReduction::prod); }, "the index must be an integer");
  refused([&] { index_reduce(x, 0, vector({0, 2}), x, ScatterReduction::amax); }, "an index is out of range [0, 2)");
}

// Recorded alone: there need be no device.
TEST_CASE("one integer of the host reads and writes rows of a tensor on a device; several integers are refused") {
  const Device device = Device::cuda();
  const Tensor x = zeros({4, 3}, {.device = device}), row = zeros({3}, {.device = device});
  for (const Tensor& taken : {x[Index(1)], gather(x, Index(1)), nn::embedding(Index(1), x), index(x, {Index(1)})}) {
    CHECK(taken.device() == device);
    CHECK(taken.rank() == 1);
    CHECK(taken.size(0) == Dim(3));
  }
  CHECK(set_rows(x, Index(1), row).device() == device);
  refused([&] { x[arange(2)]; }, "operands live on different devices");
}
