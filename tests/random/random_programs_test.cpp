// Random programs of 10 to 60 instructions: eager = compiled (static, symbolic, donated) = reference.
#include <doctest/doctest.h>

#include "random/check.hpp"

using namespace weft;
using namespace weft::testing;

TEST_CASE("random programs") { check_coverage(check_random_programs(201, 100)); }

TEST_CASE("random programs whose operations share no kernel") {
  CHECK(check_random_programs(1001, 20, Level::O0).compared > 0);
}
