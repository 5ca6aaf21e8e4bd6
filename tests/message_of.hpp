// What an Error says: CHECK(message_of([&] { f(x); }) == "[add] ...").
#pragma once
#include <string>

#include "tests/on_the_host.hpp"
#include "weft/error.hpp"

namespace weft::test {

template <class F>
std::string message_of(F f) {
  try {
    f();
    wait_for_device();
  } catch (const Error& error) {
    return without_device(error.what());
  }
  return "(nothing thrown)";
}

}  // namespace weft::test
