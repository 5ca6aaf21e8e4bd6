// The page of a run: with WEFT_TRACE=folder a process writes one self-contained HTML file there,
// <program>-<process>.html, with what was compiled and why, the graphs, schedules and kernels, memory over time and a
// timeline of the calls. In: each compilation and each call. Out: the file, after compilations (at most once a second)
// and when the process ends. Without WEFT_TRACE a call pays a load and a branch. A forked child writes none.
// Invariant: nothing of it throws, and what fails inside (memory, the disk) ends the page and nothing else.
#pragma once
#include "trace/function.hpp"
#include "trace/step_times.hpp"

namespace weft::detail::run_page {

inline constinit std::atomic<bool> enabled{false};
inline bool is_on() { return enabled.load(std::memory_order_relaxed); }

// Of a new specialization. Those of a function that are beyond its recompile limit have one id and are one entry.
struct Compilation {
  const CallContext& call;
  const Specialization& made;
  bool beyond_limit;
  const std::string& reason;  // why none that was there did; empty for the first
  StepTimes::Clock::time_point begin;
};
void add(const Compilation& compilation) noexcept;

// A call, from construction to destruction. The first few of each specialization are watched step by step.
class Call {
 public:
  explicit Call(const Specialization& specialization) noexcept;
  ~Call();
  Call(const Call&) = delete;

 private:
  class Watched;
  void note(StepTimes::Clock::time_point end) const;

  const Specialization& specialization_;
  StepTimes::Clock::time_point begin_;
  std::unique_ptr<Watched> watched_;
  std::optional<runtime::Watching> watching_;
};

}  // namespace weft::detail::run_page
