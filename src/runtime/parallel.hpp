// Parallel loops on the host. A range is cut into chunks of whole grains, which the threads take one after another:
// each begins with a part of its own and goes on with what is left of the others', so a thread that the system has
// taken away delays the chunk that it is in and nothing else. Which chunks there are and who runs them decides nothing
// about results. A range of one grain, a call inside a parallel loop, and a process whose parent had other threads when
// it forked run inline.
#pragma once
#include <cstdint>

namespace weft {

namespace workers {
struct Loop;
}

// The chunks of a loop that one of its threads runs.
class Chunks {
 public:
  Chunks(std::int64_t begin, std::int64_t end) : begin_(begin), end_(end) {}  // one
  Chunks(workers::Loop* loop, int place) : loop_(loop), place_(place) {}

  // The next chunk. False where none is left, or a body has thrown.
  bool next(std::int64_t& begin, std::int64_t& end);
  // Number of this thread in its loop, from 0 and less than the `most_threads` of the loop.
  int place() const { return place_; }

 private:
  workers::Loop* loop_ = nullptr;
  int place_ = 0;
  std::int64_t begin_ = 0, end_ = 0;
};

// f(index) for each index of these chunks.
template <class Function>
void for_each_index(Chunks& chunks, Function f) {
  for (std::int64_t begin, end; chunks.next(begin, end);)
    for (std::int64_t index = begin; index < end; ++index) f(index);
}

// Of exceptions that bodies throw, the first is thrown when all chunks that have begun have ended; no others begin.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  void (*body)(void* context, std::int64_t begin, std::int64_t end), void* context);
// The body is called once on each thread, at most on `most_threads` of them, and asks for chunks itself: for what a
// thread keeps from one chunk to the next.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, std::int64_t most_threads,
                  void (*body)(void* context, Chunks& chunks), void* context);

// Threads that a parallel loop uses at most: WEFT_NUM_THREADS, or else OpenMP's number for the calling thread, but no
// more than there are processors for it. 1 inside a parallel loop, and in a forked child whose parent had other
// threads.
int num_threads();

}  // namespace weft
