// 100,000 programs of public functions: all eagerly, one in four compiled, in turn for its sizes and dynamically; each
// kernel also for a GPU where NVRTC is installed. A few hours on two cores. WEFT_ORACLE_SEED=first-last/4 runs a
// part of them, for machines with many cores.
#include <doctest/doctest.h>

#include "oracle/check.hpp"

TEST_CASE("many programs of public functions") {
  oracle::check_coverage(oracle::check_programs(1'000'000, 100'000, 4));
}
