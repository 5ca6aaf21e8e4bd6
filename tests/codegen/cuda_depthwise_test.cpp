// Kernels of depthwise convolutions compile for each architecture. Needs no GPU.
#include <doctest/doctest.h>

#include "codegen/cuda.hpp"
#include "codegen/cuda_functions.hpp"
#include "runtime/cuda/code.hpp"
#include "tests/codegen/cuda_support.hpp"

using namespace weft;
using namespace weft::test;

TEST_CASE("a depthwise convolution compiles for each architecture") {
  if (const std::string lacking = nvrtc(); !lacking.empty()) {
    MESSAGE("left out: ", lacking);
    return;
  }
  const std::pair<const char*, codegen::CudaDepthwise> calls[] = {{"sm_80", {DType::bf16, {3, 3}, {1, 1}, {1, 7}}},
                                                                  {"sm_90a", {DType::bf16, {5, 5}, {2, 2}, {1, 7}}},
                                                                  {"sm_90a", {DType::f16, {7, 7}, {1, 2}, {1, 7}}},
                                                                  {"sm_100", {DType::f16, {5, 3}, {1, 1}, {1, 7}}}};
  for (const auto& [architecture, call] : calls) {
    CAPTURE(architecture);
    const std::string texts[] = {codegen::cuda_depthwise(call).text};
    for (const std::string& cubin :
         runtime::cuda::compile_units(codegen::cuda_units(texts), architecture, runtime::cuda::Effort::check))
      CHECK(!cubin.empty());
  }
}
