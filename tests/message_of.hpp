// What an Error says: CHECK(message_of([&] { f(x); }) == "[add] ...").
#pragma once
#include <string>

#include "weft/error.hpp"

namespace weft::test {

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing thrown)";
}

}  // namespace weft::test
