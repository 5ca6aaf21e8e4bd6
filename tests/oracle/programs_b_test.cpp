// The second half of programs_a_test.cpp.
#include <doctest/doctest.h>

#include "oracle/check.hpp"

TEST_CASE("programs of public functions, second half") {
  oracle::check_coverage(oracle::check_programs(1001, 1000, 4));
}

TEST_CASE("a program with the gradient of a cumulative product over infinities") {
  oracle::check_programs(1'031'555, 1, 0);
}
