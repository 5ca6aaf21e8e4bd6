// Kernels of functions that are compiled with {.async = true} are made by threads of their own, at a low priority,
// while calls run eagerly. They end when the process does: programs that compile are stopped then. In a forked child,
// which has none of them, they start again.
#pragma once
#include "trace/kernel_job.hpp"

namespace weft::detail::background {

// The threads begin with it when the thread's call that asks for it has ended, or has taken long: a first call that
// shares the processors with compilers takes twice as long.
void add(Function& function, std::shared_ptr<const Specialization> specialization, std::shared_ptr<KernelJob> job);
// Of a thread: jobs that it has added wait for the end of its call.
inline thread_local constinit bool jobs_wait = false;
void let_jobs_begin();
// Of a call that finds kernels missing: starts the threads where this process has lost them.
void tend();
// Returns when all kernels of the function that were asked for before are made, and makes those that nobody is at.
void wait(Function& function);

}  // namespace weft::detail::background
