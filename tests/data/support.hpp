// What the error of a call says.
#pragma once
#include <doctest/doctest.h>

#include <string>

#include "weft/tensor.hpp"

namespace weft::test {

// The text of the Error that f() throws, which must name the file of the caller.
template <class F>
std::string error_of(F f, Loc caller = Loc::current()) {
  const std::string file = caller.file;
  try {
    f();
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(file.substr(file.rfind('/') + 1) + ':') != std::string::npos);
    return error.what();
  }
  return "no error";
}
inline bool holds(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace weft::test
