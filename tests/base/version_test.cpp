#include "weft/version.hpp"

#include <doctest/doctest.h>

#include <string>

TEST_CASE("the library's version is that of the headers") {
  const int numbers[] = {WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH};
  CHECK(weft::version() ==
        std::to_string(numbers[0]) + "." + std::to_string(numbers[1]) + "." + std::to_string(numbers[2]));
}
