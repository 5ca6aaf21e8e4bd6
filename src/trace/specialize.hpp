// What a call asks for which nothing compiled fits. In: the call. Out: a specialization, or a branch more of one, whose
// kernels are made or under way. While it traces the function's mutex is held.
#pragma once
#include "trace/call_context.hpp"

namespace weft::detail {

// How many specializations this thread has made.
inline thread_local constinit std::uint64_t compilations_of_thread = 0;

// Of a call's key and the outcomes so far: the kind of call that eager_then_compile counts.
Digest digest_of(const Scratch& scratch);
// Whether the stance lets such a call compile; false: it runs as a plain one. `reason`: why nothing fits. The
// function's mutex is held.
bool may_compile(CallContext call, Digest what, const std::string& reason);
// Why recompile_limit forbids it; empty where it does not. Warns of it once. Throws under OnFailure::raise.
std::string beyond_limit(CallContext call, const std::string& reason);

// Traces and compiles for this call. The function's mutex is held while it traces, not while kernels are made. A
// function that decides has then gone the whole way: the scratch says which. Null where the stance wants a plain call.
const Specialization* specialize(CallContext call);
// The call has come to an outcome that has no branch yet: traces again along its way, goes on from the values that were
// kept, and adds what follows to the tree. The scratch's way then goes on, to the end if this thread traced. Returns
// the specialization that the way is in, a new one where the function turns out to be resumable; null where the stance
// wants a plain call.
const Specialization* extend(CallContext call, const Specialization& specialization);
// Makes the kernels, or has them made. Nobody holds the function's mutex for this.
void make_kernels(CallContext call, const Specialization& specialization, std::shared_ptr<KernelJob> job);
// Traces again, the same way. Where the function does something else than when it was compiled, or throws, the
// specialization is dropped, and that is the error.
void check_again(CallContext call, const Specialization& specialization);

}  // namespace weft::detail
