// Parallel loops on the host, on OpenMP's threads. The range is cut into contiguous pieces, at most one a thread, each
// a multiple of `grain` (the last may be shorter); which thread runs a piece decides nothing about results. A range of
// one piece, a call inside a parallel loop, and a process whose parent had other threads when it forked run inline.
#pragma once
#include <cstdint>

namespace weft {

// Of exceptions that bodies throw, the first is thrown when all pieces have ended.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  void (*body)(void* context, std::int64_t begin, std::int64_t end), void* context);

// Threads that a parallel loop uses at most; 1 in a forked child whose parent had other threads.
int num_threads();

}  // namespace weft
