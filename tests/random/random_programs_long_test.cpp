// More of them: eager = compiled (static, symbolic, donated) = reference.
#include <doctest/doctest.h>

#include "random/check.hpp"

using namespace weft;
using namespace weft::testing;

TEST_CASE("more random programs") { check_coverage(check_random_programs(201, 1800)); }
