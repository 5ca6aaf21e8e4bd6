// The library's own scalar expressions, compiled once for each ISA. Plain data: expressions.isa.cpp reads it too.
#pragma once
#include "runtime/host/isa_namespaces.hpp"

namespace weft {

struct ElementwiseDefinition;

struct OwnExpressions {
  const ElementwiseDefinition* gelu;
  const ElementwiseDefinition* gelu_tanh;
  // (parameter, gradient, first, second, step size, second scale, 1 - beta1, beta2, 1 - beta2, eps, decay) to
  // (parameter, first, second), as optim::AdamStep names them.
  const ElementwiseDefinition* adam;
  const ElementwiseDefinition* adamw;
  // (a, b, c) to the greatest, or 0 where that is -inf; and (a, b, c, that) to log(exp(a) + exp(b) + exp(c)).
  const ElementwiseDefinition* finite_greatest;
  const ElementwiseDefinition* log_of_sum;
};

WEFT_FOR_EACH_ISA(OwnExpressions expressions();)

// Those of the CPU that the process runs on.
const OwnExpressions& own_expressions();

}  // namespace weft
