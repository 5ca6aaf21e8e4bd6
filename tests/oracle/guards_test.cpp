// A compiled function called with arguments that differ in one property or two gives what a fresh one gives.
#include "oracle/guards.hpp"

#include <doctest/doctest.h>

TEST_CASE("guards tell arguments apart by every property") { oracle::check_guards(1, 1000); }
