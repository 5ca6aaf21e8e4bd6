// Random programs that decide, many (decision_programs.hpp).
#include "tests/trace/decision_programs.hpp"

using namespace decision_programs;

TEST_CASE("many random programs that decide") {
  check_programs(300, 5000,
                 {.check = Check::every_call, .backend = Backend::eager, .recompile_limit = 1 << 30, .cache_size = 4});
  check_programs(12, 150, {.check = Check::never, .recompile_limit = 1 << 30, .cache_size = 4});
  check_programs(cheap_programs + 12, cheap_programs + 80,
                 {.dynamic = false, .recompile_limit = 1 << 30, .cache_size = 4, .auto_select = true});
}
