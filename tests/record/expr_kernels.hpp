// Scalar expressions compiled once for each ISA (expr_kernels.isa.cpp), as the library's own are.
#pragma once
#include <cstddef>

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

namespace baseline {
CompiledExpressions compiled_expressions();
}
namespace avx2 {
CompiledExpressions compiled_expressions();
}
namespace avx512 {
CompiledExpressions compiled_expressions();
}
