// Functions that people write, compiled: what eager execution and f64 give. More of them: functions_long_test.cpp.
#include <doctest/doctest.h>

#include "fuzz/check.hpp"

TEST_CASE("functions that people write, of random sizes") { fuzz::check_functions(1, 40); }
