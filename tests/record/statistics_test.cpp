// Functions of samples, places in sorted rows, and results whose size depends on values: the numbers that PyTorch
// gives, in every way that there is to run them.
#include <cmath>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/statistics.hpp"

using namespace weft;
using namespace trace_test;
using test::refused;

TEST_CASE("differences, integrals, counts and means without NaN") {
  check_every_way(
      [](const Tensor& x, const Tensor& holes) {
        const Tensor rows = reshape(x, {2, 3});
        return Answers{{diff(x), "3 -2 5 -3 8"},
                       {diff(x, 2), "-5 7 -8 11"},
                       {diff(x, 0), "1 4 2 7 4 12"},
                       {diff(rows, 1, 0), "6 0 10"},
                       {diff(rows, 3), ""},
                       {diff(x > 3), "1 1 1 0 0"},
                       {diff(cast(x, DType::u8)), "3 254 5 253 8"},
                       {trapezoid(x), "23.5"},
                       {trapezoid(rows, 0.5, 0), "2 2 3.5"},
                       {count_nonzero(rows - 4, 1), "2 2"},
                       {count_nonzero(x > 3), "4"},
                       {nansum(holes), "6"},
                       {nanmean(holes), "3"},
                       {nanmean(holes * NAN), "nan"},
                       {nansum(cast(x, DType::i32)), "30"},
                       {nanmean(reshape(holes, {2, 2}), 1, true), "2 4"},
                       {logspace(0, 2, 3), "1 10 100"},
                       {logspace(1, 3, 3, 2, {DType::i32}), "2 4 8"}};
      },
      vector_of({1, 4, 2, 7, 4, 12}), vector_of({2, NAN, 4, NAN}));
}

TEST_CASE("covariances and correlations") {
  check_every_way(
      [](const Tensor& x) {
        return Answers{{cov(x), "1 -1 2.5 -1 1 -2.5 2.5 -2.5 7"},
                       {cov(x, 0),
                        "0.666666687 -0.666666687 1.66666663 -0.666666687 0.666666687 -1.66666663 "
                        "1.66666663 -1.66666663 4.66666651"},
                       {cov(x[0]), "1"},
                       {corrcoef(slice(x, 0, 0, 2)), "1 -1 -1 1"},
                       {corrcoef(x[2]), "1"}};
      },
      from_list<float>({{1, 2, 3}, {5, 4, 3}, {0, 1, 5}}));
  CHECK(contains(message_of([] { cov(zeros({2, 2, 2})); }), "variables in rows, a matrix at most"));
  CHECK(contains(message_of([] { cov(arange(4)); }), "needs a floating dtype"));
}

TEST_CASE("places in sorted rows") {
  check_every_way(
      [](const Tensor& sorted, const Tensor& values, const Tensor& odd) {
        const Tensor rows = reshape(concat({sorted, sorted * 2}, 0), {2, 5});
        const Tensor integers = cast(sorted, DType::i32);
        return Answers{{searchsorted(sorted, values), "0 0 1 1 4 5"},
                       {searchsorted(sorted, values, true), "0 1 1 4 5 5"},
                       {searchsorted(rows, reshape(values, {2, 3})), "0 0 1 1 4 4"},
                       {searchsorted(integers, reshape(cast(values, DType::i64), {3, 2}), true), "0 1 1 4 5 5"},
                       {searchsorted(odd, odd), "0 1 2 2"},
                       {searchsorted(odd, odd, true), "1 2 4 4"},
                       {searchsorted(slice(sorted, 0, 0, 0), values), "0 0 0 0 0 0"},
                       {searchsorted(slice(sorted, 0, 0, 1), values[2]), "1"},
                       {bucketize(values, sorted), "0 0 1 1 4 5"},
                       {bucketize(reshape(values, {2, 3}), sorted, true), "0 1 1 4 5 5"}};
      },
      vector_of({1, 3, 3, 3, 7}), vector_of({0.5, 1, 2, 3, 7, 9}), vector_of({-INFINITY, 5, NAN, NAN}));
  auto any_size = compile([](const Tensor& sorted, const Tensor& values) { return searchsorted(sorted, values); },
                          {.dynamic = true});
  for (const int size : {2, 3, 700, 1025}) {
    CAPTURE(size);
    const Tensor sorted = arange(size, {DType::f32}), values = arange(2 * size, {DType::f32}) / 2 - 0.25;
    CHECK(text_of(any_size(sorted, values)) == text_of(ceil(maximum(values, 0))));
  }
  CHECK(contains(message_of([] {
                   searchsorted(zeros({2, 3}), zeros({3, 3}));
                 }),
                 "the same sizes before the last axis"));
  CHECK(contains(message_of([] { bucketize(zeros({2}), zeros({2, 2})); }), "the boundaries must be a vector"));
}

TEST_CASE("sizes that depend on values: computed at once, differentiated, and refused where they can't be known") {
  const Tensor x = from_list<float>({{0, 3, 1}, {3, 0, 3}});
  CHECK(text_of(nonzero(x)) == "0 1 0 2 1 0 1 2");
  CHECK(nonzero(x).shape() == Shape::of(4, 2));
  CHECK(nonzero(x[0][1]).shape() == Shape::of(1, 0));
  CHECK(nonzero(zeros({0, 3})).shape() == Shape::of(0, 2));
  CHECK(text_of(masked_select(x, x > 0)) == "3 1 3 3");
  CHECK(text_of(masked_select(x, from_list<bool>({true, false, true}))) == "0 1 3 3");
  CHECK(text_of(masked_select(transpose(x), transpose(x) > 1)) == "3 3 3");
  CHECK(masked_select(x, x > 5).shape() == Shape::of(0));
  const auto [values, inverse, counts] = unique(x);
  CHECK(text_of(values) == "0 1 3");
  CHECK(text_of(inverse) == "0 2 1 2 0 2");
  CHECK(inverse.shape() == x.shape());
  CHECK(text_of(counts) == "2 1 3");
  CHECK(text_of(unique(vector_of({NAN, 1, NAN})).values) == "1 nan nan");
  CHECK(unique(zeros({0})).values.shape() == Shape::of(0));
  CHECK(text_of(unique(cast(x, DType::u8)).values) == "0 1 3");
  CHECK(text_of(grad([](const Tensor& x) { return sum(square(masked_select(x, x > 1))); }, x)) == "0 6 0 6 0 6");
  auto traced = compile([](const Tensor& x) { return nonzero(x); }, {.fullgraph = true});
  const std::string message = message_of([&] { traced(x); });
  CHECK(contains(message, "[nonzero] the size of the result depends on values"));
  CHECK(contains(message, AT_LINE(__LINE__ - 3)));
  CHECK(contains(
      message_of([&] { scan([](Tensor s, const Tensor& v) { return s + nonzero(v).size(0); }, zeros({}), x); }),
      "[nonzero] the size of the result depends on values"));
}

TEST_CASE("histograms: bins of equal width and others, weights and densities") {
  check_every_size(
      [](const Tensor& x, const Tensor& w, const Tensor& e, const Tensor& n) {
        return Answers{
            {histogram(x, 4).counts, "1 2 1 2"},
            {histogram(x, 4).edges, "-1 0.25 1.5 2.75 4"},
            {histogram(x, 3, 0, 3).counts, "1 1 2"},
            {histogram(x, 3, 0, 3).edges, "0 1 2 3"},
            {histogram(x, 3, 0, 3, {.weight = w}).counts, "1 1 0.75"},
            {histogram(x, 4, {.weight = w, .density = true}).counts, "0.20645161 0.20645161 0.0516129024 0.335483849"},
            {histogram(x, e).counts, "1 1 2"},
            {histogram(x, e, {.density = true}).counts, "0.25 0.166666672 1"},
            {histogram(x * 0 + 2, 2).counts, "0 6"},
            {histogram(x * 0 + 2, 2).edges, "1.5 2 2.5"},
            {histogram(slice(x, 0, 0, 0), 2).edges, "0 0.5 1"},
            {histogram(n, 2, 1, 1).counts, "0 1"}};
      },
      from_list<float>({{1, 2.5, -1}, {4, 0.25, 3}}), from_list<float>({{1, 0.5, 2}, {3, 1, 0.25}}),
      vector_of({0, 1, 2.5, 3}), vector_of({1, NAN}));
  const Tensor x = ones({3});
  refused([&] { histogram(arange(3), 2); }, "[histogram] needs a floating dtype");
  refused([&] { histogram(x, 0); }, "the number of bins is 0");
  refused([&] { histogram(x, 2, 1, 0); }, "the range must be finite and ascending, it is from 1 to 0");
  refused([&] { histogram(vector_of({1, NAN}), 2); }, "needs finite elements where no bounds are given: f32[2]");
  refused([&] { histogram(x, ones({1})); }, "the edges must be a vector of two at least");
  refused([&] { histogram(x, 2, {.weight = ones({2})}); }, "needs a weight for each element");
}

TEST_CASE("elements that are among others") {
  check_every_size(
      [](const Tensor& x, const Tensor& e, const Tensor& n) {
        return Answers{{isin(x, e), "1 1 0 0 0 1"},
                       {isin(x, e, true), "0 0 1 1 1 0"},
                       {isin(x, 2.5), "0 1 0 0 0 0"},
                       {isin(cast(x, DType::i32), cast(e, DType::i64)), "1 1 0 0 1 1"},
                       {isin(n, n), "1 0"},
                       {isin(x, slice(e, 0, 0, 0)), "0 0 0 0 0 0"},
                       {isin(x > 1, e > 5), "1 0 1 0 1 0"},
                       {isin(3, e), "1"}};
      },
      from_list<float>({{1, 2.5, -1}, {4, 0.25, 3}}), vector_of({0, 1, 2.5, 3}), vector_of({1, NAN}));
}

TEST_CASE("neighbours that are equal") {
  const Unique found = unique_consecutive(reshape(vector_of({3, 3, 1, 1, 1, 3, NAN, NAN}), {2, 4}));
  CHECK(text_of(found.values) == "3 1 3 nan nan");
  CHECK(text_of(found.inverse) == "0 0 1 1 1 2 3 4");
  CHECK(found.inverse.shape() == Sizes({2, 4}));
  CHECK(text_of(found.counts) == "2 3 1 1 1");
  CHECK(unique_consecutive(zeros({0})).counts.shape() == Sizes({0}));
  auto compiled = compile([](const Tensor& x) { return unique_consecutive(x).values; }, {.fullgraph = true});
  CHECK(contains(message_of([&] { compiled(ones({3})); }), "[unique_consecutive] the size of the result depends on"));
}
