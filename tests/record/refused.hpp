// A call that must throw an error with these words and the caller's line.
#pragma once
#include <doctest/doctest.h>

#include <string>

#include "base/fail.hpp"
#include "tests/message_of.hpp"

namespace weft::test {

template <class F>
void refused(F bad, const std::string& words, Loc loc = Loc::current()) {
  const std::string message = message_of(bad);
  CAPTURE(words);
  CAPTURE(message);
  CHECK(message.find(words) != std::string::npos);
  CHECK(message.find(", at " + to_string(loc)) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

}  // namespace weft::test
