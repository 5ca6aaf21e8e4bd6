// Reading and writing by several subscripts, and at flat positions: the elements where PyTorch has them, in every way
// that there is to run them; by masks plainly, since they are read at once.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/indexing.hpp"

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

TEST_CASE("masks beside indices and whole axes") {
  const auto f = [](const Tensor& x, const Tensor& i, const Tensor& j, const Tensor& m, const Tensor& n) {
    return Answers{
        {index(x, {m}), "0 1 2 3 8 9 10 11 20 21 22 23"},
        {index(x, {m, vector({0, 1, 2})}), "0 9 22"},
        {index(x, {m, n}), "0 10 23"},
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
  refused([&] { index(x, std::vector<Tensor>()); }, "[index] 0 indices for f32[2,3]");
  refused([&] { index(x, {{}, {}}); }, "[index] 2 indices for f32[2,3]");
  refused([&] { index(x, {arange(1), arange(1), arange(1)}); }, "[index] 3 indices for f32[2,3]");
  refused([&] { index(x, {mask, arange(1)}); }, "[index] 3 indices for f32[2,3]");
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
