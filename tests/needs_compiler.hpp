// The need of a C++ compiler: TEST_CASE("..." * needs(a_compiler)).
#pragma once
#include "base/no_compiler.hpp"
#include "runtime/host/compiler.hpp"
#include "tests/needs.hpp"

namespace weft::test {

inline std::string a_compiler() {
  try {
    host_compiler();
    return {};
  } catch (const NoCompilerError& error) {
    return error.what();
  }
}

}  // namespace weft::test
