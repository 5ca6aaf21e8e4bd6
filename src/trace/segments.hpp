// From traces to segments: what a trace gave is compiled, where nothing compiled computes the same, and hangs in the
// tree of its specialization.
#pragma once
#include "trace/decisions.hpp"
#include "trace/function.hpp"

namespace weft::detail {

// Compiles what segments of the specialization lack, and hangs what a trace gave, from its step `begin` on, below a
// branch. Of a first trace that is the root itself.
void add_steps(CallContext call, const Specialization& to, TracedPath& path, std::size_t begin, Branch* from,
               Backend backend);

}  // namespace weft::detail
