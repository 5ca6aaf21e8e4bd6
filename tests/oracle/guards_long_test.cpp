// 10,000 changes of arguments.
#include <doctest/doctest.h>

#include "oracle/guards.hpp"

TEST_CASE("guards tell many changed arguments apart") { oracle::check_guards(1000, 10'000); }
