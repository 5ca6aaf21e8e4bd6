// A dry run: the program goes on, and nothing is computed (weft/precompile.hpp). A call of a compiled function traces,
// asks for its kernels, and gives values of the right types that have no memory. Invariant: such a value is read by
// nobody: evaluation refuses it.
#pragma once
#include "ir/node.hpp"

namespace weft {

// Of this thread.
inline thread_local constinit bool is_dry_run = false;

// A value without memory.
Tensor unknown_value(const Type& type, Loc loc);
// Whether the node is one: an argument that was specified, a result of a dry run.
bool is_unknown(const Node& node);

}  // namespace weft
