// Calls of functions with a derivative of the program's own (custom_vjp, custom_jvp). In: such a call, and gradients of
// its results or tangents of its operands. Out: what the program's rule gives, recorded in the place of the derivative
// of the body, so a second derivative differentiates the rule.
#pragma once
#include "autograd/rules.hpp"
#include "autograd/tangents.hpp"
#include "record/custom_callee.hpp"

namespace weft {

void differentiate_custom(const CustomCallee& custom, const Pullback& p);
void differentiate_custom_forward(const CustomCallee& custom, const Pushforward& p);

}  // namespace weft
