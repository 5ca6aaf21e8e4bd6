// Derivatives of calls. In: a call whose results have gradients, or whose operands have tangents. Out: the gradients of
// its operands, or the tangents of its results, recorded as one more call: its body is the derivative of the call's
// body, made once for a signature and shared. What the derivative reads of the forward values it computes again; in a
// compiled function the two are one (passes/cse.hpp).
#pragma once
#include "autograd/rules.hpp"
#include "autograd/tangents.hpp"
#include "record/disable.hpp"

namespace weft {

void differentiate_call(const Pullback& p);
void differentiate_call_forward(const Pushforward& p);

// Outside of the trace, as the call of the disabled function ran, and is such a call itself.
void differentiate_disabled(const Pullback& p, const DisabledTape& tape);

// By the derivative that the program gave; throws where it gave none, and where that gives other types.
void differentiate_host_call(const Pullback& p);

}  // namespace weft
