// Random programs that decide, a few (decision_programs.hpp).
#include "tests/trace/decision_programs.hpp"

using namespace decision_programs;

TEST_CASE("random programs that decide, by the eager executor") {
  check_programs(0, 300,
                 {.check = Check::every_call, .backend = Backend::eager, .recompile_limit = 1 << 30, .cache_size = 4});
}
TEST_CASE("random programs that decide, compiled") {
  check_programs(0, 12, {.check = Check::sampled, .recompile_limit = 1 << 30, .cache_size = 4});
}
TEST_CASE("random programs that decide, both sides computed where they are cheap, by the eager executor") {
  const CompileOptions options{.dynamic = false,
                               .check = Check::every_call,
                               .backend = Backend::eager,
                               .recompile_limit = 1 << 30,
                               .cache_size = 4,
                               .auto_select = true};
  check_programs(0, 100, options);
  check_programs(cheap_programs, cheap_programs + 200, options);
}
TEST_CASE("random programs that decide, both sides computed where they are cheap, compiled") {
  check_programs(cheap_programs, cheap_programs + 12,
                 {.dynamic = false, .recompile_limit = 1 << 30, .cache_size = 4, .auto_select = true});
}
