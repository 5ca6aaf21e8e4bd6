// Where temporaries and workspaces may lie: gaps of a memory, step by step, and results that are written later.
#include "base/gaps.hpp"

#include <doctest/doctest.h>

using weft::Gaps;

namespace {

struct Buffer {
  enum class Kind { result, temporary } kind;
  int index = 0;
};
struct Step {
  std::vector<int> buffers;
};
struct Donation {
  int result;
};

}  // namespace

TEST_CASE("a place begins at a multiple of what its memory asks for, whatever lies before it") {
  for (const std::int64_t step : {64, 256}) {
    CAPTURE(step);
    Gaps gaps(4096, step);
    gaps.hold(64, 64, {0, 9});
    CHECK(gaps.take(64, {0, 9}) == 0);  // before it
    CHECK(gaps.take(100, {0, 9}) == (step == 64 ? 128 : 256));
    CHECK(gaps.take(100, {0, 9}) == (step == 64 ? 256 : 512));
    CHECK(gaps.take(64, {10, 10}) == 0);
    CHECK(gaps.take(4096, {0, 0}) == -1);
  }
}

TEST_CASE("a result is vacant until the first step that has one of its buffers, unless it takes an argument's memory") {
  using Kind = Buffer::Kind;
  const std::vector<Buffer> buffers{{Kind::result, 1}, {Kind::temporary, 0}, {Kind::result, 0},
                                    {Kind::result, 1}, {Kind::result, 2},    {Kind::result, 3}};
  const std::vector<Step> steps{{{1}}, {{1, 3}}, {{3, 0, 4}}, {{2, 3}}};
  const std::vector<Donation> donations{{2}};
  const std::vector<weft::Vacancy> vacancies = weft::find_vacancies(steps, buffers, donations);
  REQUIRE(vacancies.size() == 2);  // result 3 is in no step
  CHECK(vacancies[0].result == 1);
  CHECK(vacancies[0].buffer == 3);
  CHECK(vacancies[0].first == 1);
  CHECK(vacancies[1].result == 0);
  CHECK(vacancies[1].first == 3);
}
