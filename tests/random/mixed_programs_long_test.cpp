// More random programs of bf16 and f16.
#include "random/mixed_programs.hpp"

using namespace weft;

TEST_CASE("more random programs of bf16 and f16") { testing::check_mixed_programs(0, 2000, 40); }
