// Derivatives of loops and choices. In: a scan or a cond whose results have gradients, or a loop or a choice whose
// operands have tangents. Out: the gradients of the operands, or the tangents of the results, recorded as another loop
// or choice, which is differentiable in turn.
#pragma once
#include "autograd/rules.hpp"
#include "autograd/tangents.hpp"

namespace weft {

// Records a scan in the other direction, over the gradients and the slices. The forward loop is extended to stack what
// this scan needs: the carries of each iteration, and values that are expensive to recompute. See
// docs/decisions/0008-loops.md.
void differentiate_scan(const Pullback& p);
// A cond over the derivatives of both bodies, which compute the forward values again.
void differentiate_cond(const Pullback& p);

// The same loop over values and tangents side by side; a cond over the tangents of both bodies. What the body of a loop
// or a choice computes, it computes again for the tangents.
void differentiate_scan_forward(const Pushforward& p);
void differentiate_while_forward(const Pushforward& p);
void differentiate_cond_forward(const Pushforward& p);

}  // namespace weft
