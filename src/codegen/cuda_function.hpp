// A function of a device that no kernel of the loop IR describes: a template of weft/detail/cuda_*.inc with the types
// and numbers of a call.
#pragma once
#include <cstdint>
#include <string>

namespace weft::codegen {

struct CudaFunction {
  std::string name, text;   // functions of one name have one text
  int threads = 0;          // of a block; 0: the step that launches it knows
  std::int64_t shared = 0;  // bytes of shared memory that a launch gives a block
};

}  // namespace weft::codegen
