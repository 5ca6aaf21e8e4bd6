// Scalar expressions compiled once for each ISA (expr_kernels.isa.cpp), as the library's own are.
#pragma once
#include <cstddef>

#include "runtime/host/isa_namespaces.hpp"

namespace weft {
struct ElementwiseDefinition;
}

struct CompiledExpression {
  const char* name;
  const weft::ElementwiseDefinition* definition;
};
struct CompiledExpressions {
  const CompiledExpression* first;
  std::size_t count;
};

WEFT_FOR_EACH_ISA(CompiledExpressions compiled_expressions();)
