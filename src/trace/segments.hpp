// From traces to segments: what a trace gave hangs in the tree of its specialization, and is to be compiled where
// nothing there computes the same.
#pragma once
#include "trace/decisions.hpp"
#include "trace/function.hpp"

namespace weft::detail {

// Hangs what a trace gave, from its step `begin` on, below a branch; of a first trace that is the root itself. Returns
// the kernels that are to be made for it.
std::shared_ptr<KernelJob> add_steps(CallContext call, const Specialization& to, TracedPath& path, std::size_t begin,
                                     Branch* from, Backend backend);

// The only segment of a specialization that no trace of a function's code has made. Returns its kernels.
std::shared_ptr<KernelJob> add_whole(CallContext call, Specialization& to, TraceResult traced, Backend backend);

// A segment that gives results and is no step of a trace: one that `job` is to make, or the one that computes the same.
// Null beyond decision_limit.
const Segment* add_results(CallContext call, const Specialization& to, TraceResult traced, Backend backend,
                           const std::shared_ptr<KernelJob>& job);

}  // namespace weft::detail
