// Who looks on at compiled functions: the page of a run, which the folder observe writes (observe/run_log.hpp). In:
// each compilation, and each call as it begins and ends. Without WEFT_TRACE a call pays a load and a branch. Invariant:
// nothing of it throws, and what fails inside (memory, the disk) ends the page and nothing else.
#pragma once
#include <chrono>

#include "runtime/watch.hpp"
#include "trace/call_context.hpp"

namespace weft::detail::observer {

using Clock = std::chrono::steady_clock;

inline constinit std::atomic<bool> enabled{false};
inline bool is_on() { return enabled.load(std::memory_order_relaxed); }

// Of a new specialization. Those of a function that are beyond its recompile limit have one id and are one entry.
struct Compilation {
  const CallContext& call;
  const Specialization& made;
  bool beyond_limit;
  const std::string& reason;  // why none that was there did; empty for the first
  Clock::time_point begin;
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
  void note(Clock::time_point end) const;

  const Specialization& specialization_;
  Clock::time_point begin_;
  std::unique_ptr<Watched> watched_;
  std::optional<runtime::Watching> watching_;
};

}  // namespace weft::detail::observer
