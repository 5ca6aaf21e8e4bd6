// Functions that write at positions: against the numbers that PyTorch gives, in every way that there is to run them;
// where several updates meet the last one stays; and what they say to arguments that do not fit.
#include <cmath>

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
Tensor vector(std::vector<std::int64_t> numbers) {
  return constant(numbers, {static_cast<std::int64_t>(numbers.size())});
}
Tensor matrix(std::vector<std::vector<std::int64_t>> rows) {
  std::vector<std::int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return constant(all, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())});
}
Tensor reals(std::vector<float> numbers) { return constant(numbers, {static_cast<std::int64_t>(numbers.size())}); }
}  // namespace

TEST_CASE("elements and rows that are set, as in PyTorch; of equal places the last one stays") {
  check_every_way(
      [](const Tensor& x, const Tensor& s) {
        const Tensor at = matrix({{0, 2, 1}, {2, 2, 0}}), w = counted({3, 2}, 0) * -1;
        return Answers{
            {scatter(x, 0, at, s), "100 1 105 3 4 5 102 7 103 104 10 11"},
            {scatter(x, 1, matrix({{3, 1}, {0, 2}, {2, 3}}), slice(s, 0, 0, 3)), "0 101 2 100 103 5 104 7 8 9 106 107"},
            {scatter(x, 1, matrix({{3}, {0}}), 7.5), "0 1 2 7.5 7.5 5 6 7 8 9 10 11"},
            {scatter(x, 0, matrix({{1}, {1}, {1}}), counted({3, 1}, 50)), "0 1 2 3 52 5 6 7 8 9 10 11"},
            {scatter(cast(x, DType::i8), 0, matrix({{1}, {1}}), cast(counted({2, 1}), DType::i8)),
             "0 1 2 3 1 5 6 7 8 9 10 11"},
            {scatter(x > 5, 0, matrix({{1, 2}}), matrix({{1, 0}}) > 0), "0 0 0 0 1 0 1 1 1 0 1 1"},
            {index_copy(x, 1, vector({3, 0}), w), "-1 1 2 -0 -3 5 6 -2 -5 9 10 -4"},
            {index_copy(x, 0, vector({1, 1}), slice(x, 0, 1)), "0 1 2 3 8 9 10 11 8 9 10 11"},
            {index_fill(x, 0, vector({2, 0}), -1), "-1 -1 -1 -1 4 5 6 7 -1 -1 -1 -1"},
            {index_fill(x, 1, vector({1}), sum(x)), "0 66 2 3 4 66 6 7 8 66 10 11"},
            {scatter_add(x > 9, 0, matrix({{0, 2}, {0, 1}}), matrix({{1, 0}, {0, 1}}) > 0), "1 0 0 0 0 1 0 0 0 0 1 1"},
            {index_put(x > 9, {vector({1, 1})}, x[2] < 10, true), "0 0 0 0 1 1 0 0 0 0 1 1"},
            {set_rows(x, vector({2, 0}), 1.5), "1.5 1.5 1.5 1.5 4 5 6 7 1.5 1.5 1.5 1.5"},
            {set_rows(x, vector({-1, -3}), 1.5), "1.5 1.5 1.5 1.5 4 5 6 7 1.5 1.5 1.5 1.5"},
            {index_fill(x, 1, vector({-1, 0}), -1), "-1 1 2 -1 -1 5 6 -1 -1 9 10 -1"},
            {set_rows(x, matrix({{1}, {1}}), counted({2, 1, 4}, 20)), "0 1 2 3 24 25 26 27 8 9 10 11"},
            {set_rows(cast(x, DType::bf16), cast(vector({0}), DType::i32), x[2]), "8 9 10 11 4 5 6 7 8 9 10 11"},
            {index_put(x, {vector({0, -1, 0}), vector({1, -2, 3})}, counted({3}, 7)), "0 7 2 9 4 5 6 7 8 9 8 11"},
            {index_put(x, {matrix({{0}, {2}}), vector({1, 2})}, 5), "0 5 5 3 4 5 6 7 8 5 5 11"},
            {index_put(x, {vector({1, 1})}, counted({4}, 1)), "0 1 2 3 1 2 3 4 8 9 10 11"},
            {index_put(x, {vector({1, 1})}, counted({4}, 1), true), "0 1 2 3 6 9 12 15 8 9 10 11"},
            {masked_scatter(x, matrix({{1, 0, 0, 1}}) > 0, counted({8}, 1) * -1), "-1 1 2 -2 -3 5 6 -4 -5 9 10 -6"},
            {masked_scatter(x, x < 0, slice(s, 0, 0, 0)), "0 1 2 3 4 5 6 7 8 9 10 11"},
            {scatter(x, 0, slice(at, 0, 0, 0), s), "0 1 2 3 4 5 6 7 8 9 10 11"},
            {set_rows(x, slice(vector({1}), 0, 0, 0), slice(x, 0, 0, 0)), "0 1 2 3 4 5 6 7 8 9 10 11"}};
      },
      counted({3, 4}), counted({4, 3}, 100));
}

TEST_CASE("scatter_reduce as in PyTorch") {
  check_every_way(
      [](const Tensor& x, const Tensor& given) {
        const Tensor at = matrix({{0, 2, 1}, {2, 2, 0}}), s = given * reals({-1.0f, 1.0f, 0.5f});
        using enum ScatterReduction;
        const Tensor integers = cast(x, DType::i32), updates = cast(given, DType::i32) - 105;
        const Tensor missing = where(s > 104, s / 0 - s / 0, s);
        return Answers{{scatter_reduce(x, 0, at, s, sum), "-100 1 54.5 3 4 5 57 7 -95 214 10 11"},
                       {scatter_reduce(x, 0, at, s, sum, false), "-100 1 52.5 3 4 5 51 7 -103 205 10 11"},
                       {scatter_reduce(x, 0, at, s, mean), "-50 1 27.25 3 4 5 28.5 7 -47.5 71.3333359 10 11"},
                       {scatter_reduce(x, 0, at, s, mean, false), "-100 1 52.5 3 4 5 51 7 -103 102.5 10 11"},
                       {scatter_reduce(x, 0, at, s, amax), "0 1 52.5 3 4 5 51 7 8 104 10 11"},
                       {scatter_reduce(x, 0, at, s, amax, false), "-100 1 52.5 3 4 5 51 7 -103 104 10 11"},
                       {scatter_reduce(x, 0, at, s, amin), "-100 1 2 3 4 5 6 7 -103 9 10 11"},
                       {scatter_reduce(x, 0, at, s, amin, false), "-100 1 52.5 3 4 5 51 7 -103 101 10 11"},
                       {scatter_reduce(integers, 0, at, updates, amin, false), "-5 1 0 3 4 5 -3 7 -2 -4 10 11"},
                       {scatter_reduce(cast(integers, DType::i8), 0, at, cast(updates, DType::i8), amax),
                        "0 1 2 3 4 5 6 7 8 9 10 11"},
                       {scatter_reduce(cast(x, DType::bf16), 0, at, cast(s, DType::bf16), amax),
                        "0 1 52.5 3 4 5 51 7 8 104 10 11"},
                       {scatter_reduce(x, 0, at, missing, amax), "0 1 52.5 3 4 5 51 7 8 104 10 11"},
                       {scatter_reduce(x, 0, at, 5, amin), "0 1 2 3 4 5 5 7 5 5 10 11"}};
      },
      counted({3, 4}), counted({4, 3}, 100));
}

TEST_CASE("updates that stay get their gradient, what they replace gets none") {
  const auto both = [](const Tensor& x, const Tensor& s) {
    auto of_x = grad(
        [&](const Tensor& x) {
          return sum(square(scatter(x, 0, vector({1, 1, 0}), s)) * reals({1.0f, 10.0f, 100.0f}));
        },
        x);
    auto of_s = grad(
        [&](const Tensor& s) {
          return sum(square(scatter(x, 0, vector({1, 1, 0}), s)) * reals({1.0f, 10.0f, 100.0f}));
        },
        s);
    auto tied = grad(
        [&](const Tensor& x) {
          return sum(
              scatter_reduce(x, 0, vector({1, 1, 0, 2}), reals({5.0f, 5.0f, 0.0f, 2.0f}), ScatterReduction::amax) *
              reals({1.0f, 6.0f, 4.0f}));
        },
        reals({1.0f, 5.0f, 2.0f}));
    auto shared = grad(
        [&](const Tensor& s) {
          return sum(scatter_reduce(reals({1.0f, 5.0f, 2.0f}), 0, vector({1, 1, 0, 2}), s, ScatterReduction::amax) *
                     reals({1.0f, 6.0f, 4.0f}));
        },
        reals({5.0f, 5.0f, 0.0f, 2.0f}));
    return Answers{{of_x, "0 0 600"}, {of_s, "0 100 12"}, {tied, "1 2 2"}, {shared, "2 2 0 2"}};
  };
  check_every_way(both, vector_of({1, 2, 3}), vector_of({4, 5, 6}));
}

TEST_CASE("a symbolic size may come out as 0: nothing is read of what has no rows") {
  auto f = compile(
      [](const Tensor& x, const Tensor& given) {
        const Tensor some = slice(given, 0, 2), at = remainder(arange(some.size(0)), 2);  // of n - 2 rows
        return std::vector{set_rows(x, at, some), index_copy(x, 0, at, some),
                           masked_scatter(x, x < sum(ones_like(some)), some)};
      },
      {.dynamic = true});
  const Tensor x = counted({2, 3});
  for (const int rows : {5, 4, 2}) {
    CAPTURE(rows);
    const Tensor given = counted({rows, 3}, 100), some = slice(given, 0, 2);
    const std::vector<Tensor> found = f(x, given);
    const Tensor at = remainder(arange(rows - 2), 2);
    CHECK(text_of(found[0]) == text_of(set_rows(x, at, some)));
    CHECK(text_of(found[1]) == text_of(index_copy(x, 0, at, some)));
    CHECK(text_of(found[2]) == text_of(masked_scatter(x, x < (rows - 2) * 3, some)));
  }
}

TEST_CASE("writes at symbolic sizes: one compilation serves all") {
  auto f = compile(
      [](const Tensor& x, const Tensor& at) {
        return std::vector{set_rows(x, at, 7), scatter(x, 0, unsqueeze(at, 1), -1.0), index_put(x, {at, at}, 3, true),
                           masked_scatter(x, x > 3, x + 100)};
      },
      {.dynamic = true});
  for (const auto& size : {std::pair<int, int>{3, 5}, {7, 2}, {12, 300}}) {
    const int rows = size.first, count = size.second;
    CAPTURE(rows);
    const Tensor x = counted({rows, rows + 1}), at = remainder(arange(count), rows - 1);
    const std::vector<Tensor> found = f(x, at);
    CHECK(text_of(found[0]) == text_of(set_rows(x, at, 7)));
    CHECK(text_of(found[1]) == text_of(scatter(x, 0, unsqueeze(at, 1), -1.0)));
    CHECK(text_of(found[2]) == text_of(index_put(x, {at, at}, 3, true)));
    CHECK(text_of(found[3]) == text_of(masked_scatter(x, x > 3, x + 100)));
  }
  CHECK(last_recompile_reason(f).empty());
}

TEST_CASE("the last of many that meet stays, whatever the number of threads") {
  constexpr std::int64_t count = 100000, rows = 977;
  const Tensor index = remainder(arange(count) * 7919, rows), values = arange(count, {DType::f32});
  std::vector<float> expected(rows, -1);
  for (std::int64_t i = 0; i < count; ++i) expected[static_cast<std::size_t>(i * 7919 % rows)] = static_cast<float>(i);
  const auto f = [](const Tensor& index, const Tensor& values) { return scatter(full({rows}, -1), 0, index, values); };
  for (const Tensor& found : every_way(f, index, values)) CHECK(numbers_of(found) == expected);
}

TEST_CASE("what is out of range or does not fit is an error at the user's line") {
  const Tensor x = counted({3, 4});
  CHECK(contains(message_of([&] { scatter(x, 0, matrix({{3}}), 1); }), "an index is out of range [0, 3)"));
  CHECK(contains(message_of([&] { set_rows(x, vector({-4}), 1); }), "[set_rows] an index is out of range [-3, 3)"));
  CHECK(contains(message_of([&] { index_put(x, {vector({0}), vector({-5})}, 1); }), "out of range [-4, 4)"));
  auto compiled = compile([](const Tensor& x, const Tensor& at) { return set_rows(x, at, 1); });
  CHECK(contains(message_of([&] { compiled(x, vector({4})).eval(); }), "[set_rows] an index is out of range [-3, 3)"));
  CHECK(message_of([&] { scatter(x, 0, vector({1}), 1); }) ==
        "[scatter] the index i64[1] does not fit f32[3,4] beside axis 0" + AT_LINE(__LINE__ - 1));
  CHECK(contains(message_of([&] { scatter(x, 0, matrix({{1, 2}}), counted({1, 1})); }), "does not fit the source"));
  CHECK(contains(message_of([&] { scatter(x, 0, x, 1); }), "the index must be an integer"));
  CHECK(contains(message_of([&] { index_copy(x, 0, vector({1}), x); }), "the source is f32[3,4], not f32[1,4]"));
  CHECK(contains(message_of([&] { index_fill(x, 0, vector({1}), x); }), "the value must be a number"));
  CHECK(contains(message_of([&] { index_put(x, std::span<const Tensor>(), 1); }), "0 indices for f32[3,4]"));
  CHECK(contains(message_of([&] {
                   masked_scatter(x, x > 5, vector_of({1, 2}));
                 }),
                 "[masked_scatter] the mask takes more elements than the source f32[2] has"));
  CHECK(contains(message_of([&] { masked_scatter(x, x, x); }), "the mask must be bool"));
  CHECK(contains(message_of([&] { scatter_reduce(cast(x, DType::i32), 0, matrix({{1}}), 1, ScatterReduction::mean); }),
                 "the mean needs a floating dtype"));
}

TEST_CASE("a floating source is no source for integers or bools") {
  using Write = Tensor (*)(const Tensor& x, const Tensor& source);
  const std::pair<const char*, Write> writes[] = {
      {"scatter",
       [](const Tensor& x, const Tensor& s) {
         return scatter(x, 0, zeros({2, 4}, {DType::i64}), s);
       }},
      {"scatter_add",
       [](const Tensor& x, const Tensor& s) {
         return scatter_add(x, 0, zeros({2, 4}, {DType::i64}), s);
       }},
      {"scatter_reduce",
       [](const Tensor& x, const Tensor& s) {
         return scatter_reduce(x, 0, zeros({2, 4}, {DType::i64}), s, ScatterReduction::amax);
       }},
      {"index_add",
       [](const Tensor& x, const Tensor& s) {
         return index_add(x, 0, vector({2, 0}), s);
       }},
      {"index_copy",
       [](const Tensor& x, const Tensor& s) {
         return index_copy(x, 0, vector({2, 0}), s);
       }},
      {"index_put",
       [](const Tensor& x, const Tensor& s) {
         return index_put(x, {vector({2, 0})}, s);
       }},
      {"index_put",
       [](const Tensor& x, const Tensor& s) {
         return index_put(x, {vector({2, 0})}, s, true);
       }},
      {"set_rows",
       [](const Tensor& x, const Tensor& s) {
         return set_rows(x, vector({2, 0}), s);
       }},
      {"masked_scatter", [](const Tensor& x, const Tensor& s) {
         return masked_scatter(x, x == x, concat({s, s}));
       }}};
  for (const auto& each : writes)
    for (const DType dtype : {DType::i32, DType::u8, DType::i64, DType::boolean})
      for (const DType of : {DType::f32, DType::f64, DType::bf16}) {
        const char* const name = each.first;
        const Write write = each.second;
        CAPTURE(name);
        CAPTURE(info(dtype).name);
        const Tensor x = cast(counted({3, 4}), dtype), source = cast(counted({2, 4}) + 0.5, of);
        const std::string words = "[" + std::string(name) + "] a floating source would be cut to " +
                                  std::string(info(dtype).name) + ": " + std::string(info(of).name) + "[";
        CHECK(contains(message_of([&] { write(x, source); }), words));
        CHECK(contains(message_of([&] { compile(write)(x, source); }), words));
        CHECK(write(cast(x, of), source).dtype() == of);  // and no others are refused
        CHECK(write(cast(x, of), cast(source, DType::i32)).dtype() == of);
        CHECK(write(x, cast(source, dtype)).dtype() == dtype);
      }
  const Tensor x = cast(counted({3, 4}), DType::i32), at = vector({1});
  const Tensor half = full({}, 0.5, {DType::f64});
  CHECK(contains(message_of([&] { masked_fill(x, x > 3, half); }),
                 "[masked_fill] a floating source would be cut to i32"));
  CHECK(
      contains(message_of([&] { index_fill(x, 0, at, half); }), "[index_fill] a floating source would be cut to i32"));
  CHECK(
      contains(message_of([&] { set_rows(x, at, Scalar(0.5)); }), "[set_rows] a floating source would be cut to i32"));
}

TEST_CASE("a number that is written fits the dtype, or is an error") {
  const Tensor x = cast(counted({3, 4}), DType::u8), at = vector({1}), index = matrix({{1}});
  CHECK(message_of([&] { masked_fill(x, x > 3, 1.5); }) ==
        "[masked_fill] the number 1.5 does not fit into u8[3,4]" + AT_LINE(__LINE__ - 1));
  CHECK(contains(message_of([&] { index_fill(x, 0, at, -0.5); }), "[index_fill] the number -0.5 does not fit"));
  CHECK(contains(message_of([&] { scatter(x, 0, index, 0.25); }), "[scatter] the number 0.25 does not fit"));
  CHECK(contains(message_of([&] { set_rows(x, at, NAN); }), "[set_rows] the number nan does not fit"));
  CHECK(contains(message_of([&] { index_put(x, {at}, INFINITY); }), "[index_put] inf does not fit into u8"));
  CHECK(contains(message_of([&] { masked_fill(x, x > 3, 300); }), "[masked_fill] 300 does not fit into u8"));
  CHECK(text_of(masked_fill(x, x > 3, 2.0)) == "0 1 2 3 2 2 2 2 2 2 2 2");
  CHECK(text_of(scatter(x, 0, index, 7.0)) == "0 1 2 3 7 5 6 7 8 9 10 11");
  CHECK(text_of(masked_fill(x > 9, x > 5, 2)) == "0 0 0 0 0 0 1 1 1 1 1 1");
}
