// Random programs of bf16 and f16: with roundings left out they are no farther from f64.
#include "random/mixed_programs.hpp"

using namespace weft;

TEST_CASE("random programs of bf16 and f16") { testing::check_mixed_programs(0, 40, 20); }
