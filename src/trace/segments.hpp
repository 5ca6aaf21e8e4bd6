// From traces to segments: what a trace gave hangs in the tree of its specialization, and is to be compiled where
// nothing there computes the same.
#pragma once
#include "trace/call_context.hpp"
#include "trace/decisions.hpp"

namespace weft::detail {

// Hangs what a trace gave, from its step `begin` on, below a branch. Of a first trace that begins with the branch
// itself, `root`. Returns the kernels that are to be made for it.
std::shared_ptr<KernelJob> add_steps(CallContext call, const Specialization& to, TracedPath& path, std::size_t begin,
                                     const Branch& from, Backend backend, Branch* root = nullptr);

// The only segment of a specialization that no trace of a function's code has made. Returns its kernels.
std::shared_ptr<KernelJob> add_whole(CallContext call, Specialization& to, TraceResult traced, Backend backend);

// A segment that gives results and is no step of a trace: one that `job` is to make, or the one that computes the same.
// Null beyond decision_limit.
const Segment* add_results(CallContext call, const Specialization& to, TraceResult traced, Backend backend,
                           const std::shared_ptr<KernelJob>& job);

}  // namespace weft::detail
