// Thrown where no C++ compiler is installed. A type of its own, so that the process warns once, and not once for each
// compiled function as about kernels that do not compile.
#pragma once
#include "weft/error.hpp"

namespace weft {

class NoCompilerError : public CompileError {
 public:
  using CompileError::CompileError;
};

}  // namespace weft
