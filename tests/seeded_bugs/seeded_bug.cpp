// Which seeded bug is on. In: the environment variable WEFT_SEEDED_BUG. Out: seeded(). A name that is no bug ends the
// process with status 3, so that it cannot pass for a bug that was found.
#include "tests/seeded_bugs/seeded_bug.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft {
namespace {

constexpr const char* names[] = {
#define X(name) #name,
#include "seeded_bugs.inc"
#undef X
};

int chosen() {
  const char* name = std::getenv("WEFT_SEEDED_BUG");
  if (!name) return -1;
  int number = 0;
  for (const char* each : names) {
    if (std::strcmp(name, each) == 0) return number;
    ++number;
  }
  std::fprintf(stderr, "WEFT_SEEDED_BUG=%s is no bug of tests/seeded_bugs/table.txt\n", name);
  std::_Exit(3);
}

}  // namespace

bool seeded(SeededBug bug) {
  static const int on = chosen();
  return static_cast<int>(bug) == on;
}

}  // namespace weft
