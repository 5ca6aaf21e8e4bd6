// The functions whose derivatives are tested: every pointwise primitive of weft/ops.def, and at least one for each
// structural one.
#pragma once
#include "tests/autograd/support.hpp"

namespace weft::test {

struct Case {
  std::string name;
  std::vector<Literal> inputs;
  Function f;
};

// Primitives of real operands with a real result, on operands of these shapes.
bool is_real_function(Op op);
Case pointwise_case(Op op, std::span<const Shape> shapes);
std::vector<Case> structural_cases();
// Composites, beside those among the structural ones.
std::vector<Case> composite_cases();

}  // namespace weft::test
