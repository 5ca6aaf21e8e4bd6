// What a call of a function with a derivative of the program's own applies (custom_vjp, custom_jvp): the function's
// body, and the program's rule as a second graph over the same operands.
#pragma once
#include <span>

#include "ir/callee.hpp"

namespace weft {

// Operands of the call: those of the function, then what it or its rule captured.
struct CustomCallee : Callee {
  explicit CustomCallee(const Attributes& called);
  // Inputs: the operands, then a cotangent of each floating result, or a tangent of each floating operand of the
  // function. Outputs: gradients of operands, or tangents of results.
  std::shared_ptr<const Graph> rule;
  std::vector<int> rule_output;  // by operand of the function, or by result: the output that belongs to it, or -1: zero
  bool is_forward = false;       // the rule gives tangents
  std::size_t operand_count = 0;  // without what is captured
};
// That of the node; null where it is another call, or none.
const CustomCallee* custom_callee(const Node& node);

}  // namespace weft
