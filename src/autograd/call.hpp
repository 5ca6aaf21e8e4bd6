// Derivatives of calls. In: a call whose results have gradients. Out: those of its operands, recorded as one more call:
// its body is the derivative of the call's body, made once for a signature and shared. What the derivative reads of the
// forward values it computes again; in a compiled function the two are one (passes/cse.hpp).
#pragma once
#include "autograd/rules.hpp"

namespace weft {

void differentiate_call(const Pullback& p);

}  // namespace weft
