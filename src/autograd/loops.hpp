// Derivatives of loops and choices. In: a scan or a cond whose results have gradients. Out: those of its operands,
// recorded as another scan or cond, which is differentiable in turn.
#pragma once
#include "autograd/rules.hpp"

namespace weft {

// Records a scan in the other direction, over the gradients and the slices. The forward loop is extended to stack what
// this scan needs: the carries of each iteration, and values that are expensive to recompute. See
// docs/decisions/0008-loops.md.
void differentiate_scan(const Pullback& p);
// A cond over the derivatives of both bodies, which compute the forward values again.
void differentiate_cond(const Pullback& p);

}  // namespace weft
