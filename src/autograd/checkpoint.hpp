// Calls of checkpointed functions. In: a call node. Out: whether its derivative computes the values inside again.
#pragma once
#include "ir/callee.hpp"

namespace weft {

// Its name alone says so, so that a batch of it is one too.
bool is_checkpoint(const Callee& callee);

}  // namespace weft
