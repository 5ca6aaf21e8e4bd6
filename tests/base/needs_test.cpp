// What tests of this machine's parts rest on (tests/needs.hpp): a case whose need is not met does not run.
#include "tests/needs.hpp"

namespace {
bool was_asked = false;
std::string nothing() { return was_asked = true, "no machine has this"; }
std::string everything() { return ""; }
}  // namespace

TEST_CASE("a case that needs what is lacking is skipped" * weft::test::needs(nothing)) { FAIL("it was run"); }

TEST_CASE("a case whose need is met is run, and what is lacking was asked for" * weft::test::needs(everything)) {
  CHECK(was_asked);
}
