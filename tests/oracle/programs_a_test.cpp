// Programs of public functions: eager, compiled and dynamic agree with the oracle, and with each other.
#include <doctest/doctest.h>

#include "oracle/check.hpp"

TEST_CASE("programs of public functions, first half") { oracle::check_coverage(oracle::check_programs(1, 1000, 4)); }
