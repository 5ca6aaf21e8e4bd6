// Kernels of the segments that one trace has made. In: their graphs. Out: an executable each, or why there is none.
// A job is made once: whoever needs it first makes it, and others wait for that thread alone. No lock of the function
// is held meanwhile, so that other calls trace, compile and run.
#pragma once
#include "trace/call_context.hpp"

namespace weft::detail {

// On a device a call need not wait for its checks where all state is either written back by the host, after it has
// waited, or left alone by the kernels after a check that fails.
bool checks_may_wait(const TraceResult& traced, const Kernels& made);
// By leaf: whether it is a parameter or a buffer.
std::vector<std::uint8_t> parameter_leaves(const LeafList& arguments);
// Of a segment's inputs, in ascending order, those whose leaf is marked and that the segment does not change.
std::vector<int> constant_inputs(const TraceResult& traced, std::vector<std::uint8_t> constant);

class KernelJob {
 public:
  explicit KernelJob(CallContext call);
  KernelJob(const KernelJob&) = delete;

  // Segments that lie between decisions are compiled together, those that give results each by itself.
  void add(Segment& segment);
  // Many rounds of a segment, which are compiled instead of one.
  void add_rounds(const Segment& segment, Segment& rounds);
  bool empty() const { return between_.empty() && last_.empty(); }

  // Whether a segment of it is at something together with other processes: they all wait for their kernels, since an
  // eager call would do what the passes drop or merge.
  bool is_collective() const;

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Returns when it is done. Throws what compiling throws: it is not done then, and whoever comes next tries again.
  void make();
  // What its segments run instead, and why, without compiling.
  void give_up(const char* why);
  // Why a segment of it has no kernels; empty where all have.
  std::string failure() const;

 private:
  void compile(std::span<Segment* const> list);
  void fail_all(std::span<Segment* const> list, const char* why);

  Function& function_;
  Loc loc_;
  std::uint64_t passes_;                // the set of registered passes
  std::vector<std::uint8_t> owned_;     // a leaf each: the argument dies with the call
  std::vector<std::uint8_t> constant_;  // likewise: it is a constant while the function does not change it
  std::vector<Segment*> between_, last_;
  struct Loop {
    const Segment* segment;
    Segment* rounds;
  };
  std::vector<Loop> loops_;
  RecursiveMutex mutex_;  // a forked child finds it free, and the job not done, where another thread was at it
  std::atomic<bool> done_{false};
};

}  // namespace weft::detail
