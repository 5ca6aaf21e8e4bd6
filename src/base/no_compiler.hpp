// The compile error that is nobody's kernel's: there is no compiler to ask. Told apart by its type, so that a process
// says it once and not for each function.
#pragma once
#include "weft/error.hpp"

namespace weft {

class NoCompilerError : public CompileError {
 public:
  using CompileError::CompileError;
};

}  // namespace weft
