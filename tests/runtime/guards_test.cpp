// Whether the words of a call satisfy guards.
#include "runtime/guards.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace weft;
using runtime::Guards;

namespace {

bool hold(const Guards& guards, std::vector<std::uint64_t> call) { return guards.hold(call); }

// A word, then the sizes [s0, 8, s0, s1].
Guards guards_of_sizes() {
  Guards guards;
  guards.symbols = {{{}, 2, 10}, {{}, 0, INT64_MAX}};
  const Dim s0 = dims::symbol(0), s1 = dims::symbol(1, 0);
  guards.add(7);
  for (const Dim size : {s0, Dim(8), s0, s1}) guards.add_size(size);
  return guards;
}

}  // namespace

TEST_CASE("guards without symbols hold for equal words") {
  Guards guards;
  guards.words = {1, 2};
  CHECK(hold(guards, {1, 2}));
  CHECK_FALSE(hold(guards, {1, 3}));
  CHECK_FALSE(hold(guards, {1}));
  CHECK_FALSE(hold(guards, {1, 2, 3}));
}

TEST_CASE("a bit that the mask leaves out may differ") {
  Guards guards;
  guards.add(5, 0b100);
  CHECK(hold(guards, {0b111}));
  CHECK_FALSE(hold(guards, {0b011}));
}

TEST_CASE("a symbol is one size wherever it stands, and in its range") {
  const Guards guards = guards_of_sizes();
  CHECK(hold(guards, {7, 2, 8, 2, 0}));
  CHECK(hold(guards, {7, 10, 8, 10, 3}));
  CHECK(guards.symbol_value(1, std::vector<std::uint64_t>{7, 10, 8, 10, 3}) == 3);
  CHECK_FALSE(hold(guards, {7, 1, 8, 1, 0}));
  CHECK_FALSE(hold(guards, {7, 11, 8, 11, 0}));
  CHECK_FALSE(hold(guards, {7, 2, 8, 3, 0}));
  CHECK_FALSE(hold(guards, {7, 2, 9, 2, 0}));
  CHECK_FALSE(hold(guards, {6, 2, 8, 2, 0}));
  CHECK_FALSE(hold(guards, {7, 2, 8, 2, static_cast<std::uint64_t>(-1)}));
}

TEST_CASE("conditions hold of the values of a call, and of counts after them") {
  Guards guards = guards_of_sizes();
  const Dim s0 = dims::symbol(0), s1 = dims::symbol(1, 0);
  using Kind = DimCondition::Kind;
  guards.conditions = {{Kind::less, s1, s0 * 2, true}, {Kind::equal, s1, 3, false}};
  CHECK(hold(guards, {7, 4, 8, 4, 7}));
  CHECK_FALSE(hold(guards, {7, 4, 8, 4, 8}));
  CHECK_FALSE(hold(guards, {7, 4, 8, 4, 3}));
  const DimCondition of_count{Kind::less, dims::symbol(2), s0, true};
  const std::vector<std::uint64_t> call{7, 4, 8, 4, 0};
  CHECK(guards.holds(of_count, call, std::vector<std::int64_t>{3}));
  CHECK_FALSE(guards.holds(of_count, call, std::vector<std::int64_t>{4}));
}
