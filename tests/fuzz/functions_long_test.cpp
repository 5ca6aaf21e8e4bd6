// 10,000 functions that people write. WEFT_FUZZ_FUNCTIONS=seed or first-last checks those seeds alone.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "fuzz/check.hpp"

TEST_CASE("many functions that people write, of random sizes") {
  std::uint64_t first = 1000, last = 10999;
  if (const char* chosen = std::getenv("WEFT_FUZZ_FUNCTIONS")) {
    char* end = nullptr;
    first = last = std::strtoull(chosen, &end, 10);
    if (*end == '-') last = std::strtoull(end + 1, nullptr, 10);
  }
  fuzz::check_functions(first, last - first + 1);
}
