// Random programs of 10 to 60 instructions: eager = compiled (static, symbolic, donated) = reference.
#include <doctest/doctest.h>

#include <cstdlib>

#include "random/check.hpp"

using namespace weft;
using namespace weft::testing;

// What a run must have covered: nearly all of the table, and enough of what fusion and memory planning find hard.
void check_coverage(const Statistics& s) {
  // Not reached by these programs: a user's host expressions and bodies (tests/tensor, tests/graph hold them).
  int reachable = op_count;
  CHECK(static_cast<int>(s.ops.size()) * 10 >= reachable * 9);
  for (int part : {s.reductions, s.views, s.gradients, s.states}) CHECK(part * 10 >= s.programs * 3);
  CHECK(s.compared > 20 * s.undecided);
  MESSAGE(s.programs, " programs, ", s.ops.size(), " of ", op_count, " primitives, ", s.reductions, " with reductions, ", s.views,
          " with views, ", s.gradients, " with gradients, ", s.states, " with state, ", s.symbolic_again, " at other sizes; ",
          s.compared, " elements compared, ", s.undecided, " undecided");
}

TEST_CASE("random programs, first half") { check_coverage(check_random_programs(1, 1000)); }
