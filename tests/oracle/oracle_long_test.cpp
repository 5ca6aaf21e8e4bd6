// 100,000 programs of public functions.
#include <doctest/doctest.h>

#include "oracle/check.hpp"

TEST_CASE("many programs of public functions") {
  oracle::check_coverage(oracle::check_programs(1'000'000, 100'000, 1));
}
