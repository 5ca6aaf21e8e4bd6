// Integers of 62 bits and more, where sizes, positions, steps and literals enter: each means what it means in Python,
// or is refused.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "base/dim_expression.hpp"
#include "refused.hpp"
#include "weft/compile.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

using namespace weft;
using weft::test::refused;

namespace {

constexpr std::int64_t least = INT64_MIN, greatest = INT64_MAX;
using Integers = std::vector<std::int64_t>;

Integers integers(const Tensor& tensor) {
  const Tensor wide = cast(tensor, DType::i64);
  View<const std::int64_t> data = wide.data<std::int64_t>();
  return {data.begin(), data.end()};
}

}  // namespace

TEST_CASE("bounds of a slice are clamped, however large") {
  Tensor x = arange(5);
  const Integers all{0, 1, 2, 3, 4}, reversed{4, 3, 2, 1, 0}, none;
  CHECK(integers(slice(x, 0, 0, greatest)) == all);
  CHECK(integers(slice(x, 0, 0, UINT64_MAX)) == all);
  CHECK(integers(slice(x, 0, least, greatest)) == all);
  CHECK(integers(slice(x, 0, -1, least, -1)) == reversed);
  CHECK(integers(slice(x, 0, greatest, least, -1)) == reversed);
  CHECK(integers(slice(x, 0, greatest, slice_end, -2)) == Integers{4, 2, 0});
  CHECK(integers(slice(x, 0, slice_end, slice_end, -1)) == reversed);
  CHECK(integers(slice(x, 0, 0, greatest, -1)) == none);
  CHECK(integers(slice(x, 0, 3, greatest, -1)) == none);
  CHECK(integers(slice(x, 0, greatest, greatest)) == none);
  CHECK(integers(slice(x, 0, 0, least)) == none);
  CHECK(integers(slice(x, 0, least, least, -1)) == none);
  for (std::int64_t bound : {greatest / 2 - 2, greatest / 2 - 1, greatest / 2, greatest / 2 + 1}) {
    CAPTURE(bound);
    CHECK(integers(slice(x, 0, 3, bound)) == Integers{3, 4});
    CHECK(integers(slice(x, 0, 3, bound, -1)) == none);
    CHECK(integers(slice(x, 0, 1, -bound, -1)) == Integers{1, 0});
  }
}

TEST_CASE("slice_end is the end from which, and to which, the step leads") {
  const auto taken = [](Dim start, Dim stop, Dim step) {
    const Tensor part = slice(arange(5), 0, start, stop, step);
    const View<const std::int64_t> view = part.data<std::int64_t>();
    return std::vector<std::int64_t>(view.begin(), view.end());
  };
  using Integers = std::vector<std::int64_t>;
  CHECK(taken(slice_end, 3, 1) == Integers{0, 1, 2});
  CHECK(taken(slice_end, slice_end, 2) == Integers{0, 2, 4});
  CHECK(taken(slice_end, -4, 1) == Integers{0});
  CHECK(taken(slice_end, 1, -1) == Integers{4, 3, 2});
  CHECK(taken(slice_end, slice_end, -1) == Integers{4, 3, 2, 1, 0});
  CHECK(taken(3, slice_end, 1) == Integers{3, 4});
  CHECK(taken(INT64_MAX, slice_end, 1).empty());
}

TEST_CASE("a step beyond the axis takes one element") {
  Tensor x = arange(5), table = reshape(arange(12), {3, 4});
  for (std::int64_t step :
       {std::int64_t{5}, std::int64_t{1} << 40, std::int64_t{1} << 58, std::int64_t{1} << 62, greatest}) {
    CAPTURE(step);
    CHECK(integers(slice(x, 0, 1, slice_end, step)) == Integers{1});
    CHECK(integers(slice(x, 0, 3, slice_end, -step)) == Integers{3});
    CHECK(integers(slice(table, 0, 1, slice_end, step)) == Integers{4, 5, 6, 7});
    CHECK(integers(slice(x, 0, 3, 3, step)) == Integers{});
  }
  CHECK(integers(slice(x, 0, 4, slice_end, least)) == Integers{4});
  CHECK(integers(slice(x, 0, 0, slice_end, UINT64_MAX)) == Integers{0});
  auto compiled = compile([](const Tensor& x) {
    return std::vector<Tensor>{slice(x, 0, 1, greatest, greatest) * 1, slice(x, 0, -1, least, -1) * 1,
                               slice(x, 0, 3, slice_end, least) * 1};
  });
  auto dynamic = compile(
      [](const Tensor& x) {
        return std::vector<Tensor>{slice(x, 0, 1, greatest, greatest) * 1, slice(x, 0, -1, least, -1) * 1,
                                   slice(x, 0, 3, slice_end, least) * 1};
      },
      {.dynamic = true});
  for (const auto& results : {compiled(x), dynamic(x)}) {
    CHECK(integers(results[0]) == Integers{1});
    CHECK(integers(results[1]) == Integers{4, 3, 2, 1, 0});
    CHECK(integers(results[2]) == Integers{3});
  }
  auto g = grad([](const Tensor& x) { return sum(slice(x, 0, 3, slice_end, least) * 2); }, ones({5}));
  CHECK(integers(g) == Integers{0, 0, 0, 2, 0});
}

TEST_CASE("positions and counts that are not there") {
  Tensor x = arange(5), y = ones({5});
  std::vector<float> numbers(4);
  refused([&] { return select(x, 0, greatest); }, "[select] index 2^62 is out of range for axis 0 of i64[5]");
  refused([&] { return select(x, 0, least); }, "[select] index -2^62 is out of range");
  refused([&] { return x[greatest]; }, "[index] index 2^62 is out of range");
  refused([&] { return x[UINT64_MAX]; }, "18446744073709551615 is beyond i64: write it as a double");
  refused([&] { return zeros({1ull << 63}); }, "[zeros] more elements than there can be: f32[2^62]");
  refused([&] { return zeros({UINT64_MAX}); }, "[zeros] more elements than there can be");
  refused([&] { return zeros({least}); }, "[zeros] a size is negative");
  refused([&] { return zeros({1ll << 31, 1ll << 31, 1ll << 31}); }, "[zeros] more elements than there can be");
  refused([&] { return zeros({0, 1ll << 57, 1ll << 57}); }, "[zeros] more elements than there can be");
  refused([&] { return full({std::uint64_t{1} << 62}, 1); }, "[full] more elements than there can be");
  refused([&] { return reshape(y, {greatest}); }, "[reshape] element counts differ: f32[5] to f32[2^62]");
  refused([&] { return reshape(y, {UINT64_MAX}); }, "[reshape] element counts differ: f32[5] to f32[2^62]");
  refused([&] { return reshape(y, {1ll << 32, 1ll << 32}); }, "[reshape] element counts differ");
  refused([&] { return reshape(y, {greatest, -1}); }, "[reshape] f32[5] does not divide into f32[2^62,-1]");
  refused([&] { return expand(y, {greatest, 5}); }, "[expand] more elements than there can be");
  refused([&] { return pad(y, 0, slice_end, slice_end); }, "[pad] the number of zeros is beyond what can be counted");
  refused([&] { return pad(y, 0, greatest, 0); }, "[pad] the number of zeros is beyond what can be counted");
  refused([&] { return pad(y, 0, 0, 0, greatest); }, "[pad] the number of zeros is beyond what can be counted");
  refused([&] { return pad(y, 0, 1ll << 57, 1ll << 57); }, "[pad] more elements than there can be");
  refused([&] { return pad(y, 0, 0, 0, 1ll << 57); }, "[pad] more elements than there can be");
  refused([&] { return arange(greatest); }, "[arange] more elements than there can be");
  refused([&] { return arange(greatest - 3, greatest); }, "[arange] the start is beyond what can be counted");
  refused([&] { return arange(0, greatest); }, "[arange] the stop is beyond what can be counted");
  refused([&] { return arange(0, 9, greatest); }, "[arange] the step is beyond what can be counted");
  refused([&] { return eye(greatest); }, "[eye] more elements than there can be");
  refused([&] { return linspace(0, 1, greatest); }, "[linspace] more elements than there can be");
  refused([&] { return one_hot(x, greatest); }, "[one_hot] ");
  refused([&] { return uniform({greatest}); }, "[uniform] more elements than there can be");
  refused([&] { return from_span(numbers, {greatest, 4}); }, "[from_span] more elements than there can be");
  refused([&] { return sum(y, std::vector<long>{1l << 32}); }, "[sum] axis 2147483647 is out of range");
  CHECK(split(x, greatest).size() == 1);
  CHECK(integers(pad(slice(x, 0, 0, 1), 0, 1, 1, 1ll << 50)) == Integers{0, 0, 0});
  CHECK(integers(pad(slice(x, 0, 2, 3), 0, 1, 1, 1ll << 50)) == Integers{0, 2, 0});
}

TEST_CASE("an unsigned literal beyond i64 is refused") {
  Tensor y = ones({5});
  refused([&] { return y * UINT64_MAX; }, "18446744073709551615 is beyond i64: write it as a double");
  refused([&] { return full({}, UINT64_MAX, {DType::i64}); }, "18446744073709551615 is beyond i64");
  refused([&] { return y + Dim(greatest); }, "a size of 2^61 or more can't be computed with");
  refused([&] { return y + (Dim(5) - Dim(greatest) / 3); }, "a size of 2^61 or more can't be computed with");
  refused([&] { return Index(UINT64_MAX); }, "18446744073709551615 is beyond i64");
  refused([&] { return elementwise([](auto x) { return x * UINT64_MAX; })(y); }, "[elementwise] an integer literal");
  refused([&] { return elementwise([](auto x) { return x * (Sym(greatest) + 1); })(y); },
          "[elementwise] an integer literal of a scalar expression is beyond i64: write it as a double");
  refused([&] { return elementwise([](auto x) { return x * -Sym(least); })(y); }, "[elementwise] an integer literal");
  CHECK(amax(y * static_cast<double>(UINT64_MAX)).item() == 0x1p64);
  CHECK(integers(full({1}, static_cast<std::uint64_t>(greatest), {DType::i64})) == Integers{greatest});
}

TEST_CASE("sizes saturate") {
  CHECK(Dim(greatest).beyond());
  CHECK(Dim(least).beyond());
  CHECK(Dim(UINT64_MAX).beyond());
  CHECK(slice_end.beyond());
  CHECK_FALSE(slice_end.same(Dim(greatest)));
  CHECK_FALSE(Dim(Dim::limit - 1).beyond());
  const Dim most = greatest, small = 7;
  for (Dim computed :
       {small - most, most - small, most / small, -most / small, most / -small, most % small, most * most})
    CHECK(computed.beyond());
  CHECK((small - most).constant() < 0);
  CHECK((most / -small).constant() < 0);
  CHECK((-most / -small).constant() > 0);
  CHECK((Dim(1ll << 40) * Dim(1ll << 40)).same(Dim(greatest)));
  CHECK((Dim(1ll << 40) * Dim(-(1ll << 40))).same(Dim(least)));
  CHECK((Dim(greatest) + Dim(greatest)).same(Dim(greatest)));
  CHECK((Dim(least) - Dim(greatest)).same(Dim(least)));
  CHECK(dims::to_string(Dim(greatest)) == "2^62");
  CHECK(dims::to_string(Dim(least)) == "-2^62");
}

TEST_CASE("a split into more parts than anybody needs is refused") {
  const Tensor x = expand(ones({1}), {std::int64_t{1} << 57}), y = ones({65536});
  refused([&] { return split(x, 1)[0]; }, "[split] makes 144115188075855872 parts; there can be at most 65535");
  refused([&] { return split(y, 1)[0]; }, "[split] makes 65536 parts; there can be at most 65535");
  CHECK(split(slice(y, 0, 1), 1).size() == 65535);
  CHECK(split(y, 65535).size() == 2);
  CHECK(split(x, std::int64_t{1} << 56).size() == 2);
  refused([&] { return compile([](const Tensor& v) { return split(v, 1)[0]; })(y); }, "[split] makes 65536 parts");
}
