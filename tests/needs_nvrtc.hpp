// The need of NVRTC, which compiles for a GPU without one: TEST_CASE("..." * needs(nvrtc)).
#pragma once
#include "runtime/cuda/libraries.hpp"
#include "tests/needs.hpp"

namespace weft::test {

inline std::string nvrtc() {
  std::string why;
  return runtime::cuda::nvrtc_available(&why) ? "" : why;
}

}  // namespace weft::test
