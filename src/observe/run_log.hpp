// What is recorded of a run for its page: with WEFT_TRACE=folder a process writes one self-contained HTML file there,
// <program>-<process>.html, with what was compiled and why, the graphs, schedules and kernels, memory over time and a
// timeline of the calls. The file is written after compilations (at most once a second) and when the process ends; a
// forked child writes none. One object a process, under one mutex. Invariant: who records changes nothing of what the
// program does. Every entry is guarded: what throws there ends the page, for the whole process.
#pragma once
#include <ctime>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/fork.hpp"
#include "trace/observer.hpp"

namespace weft::detail::observer {

// Begin and length of each that is drawn.
using Drawn = std::vector<std::pair<double, double>>;

// A specialization, or all those of a function that are beyond the limit.
struct Made {
  nlohmann::json shown;  // what does not change any more
  Drawn traces = {}, calls = {};
  std::size_t trace_count = 0, call_count = 0;
  double trace_seconds = 0, call_seconds = 0;
  std::vector<std::vector<double>> watched = {};  // by call: seconds of each step
};

struct RunLog {
  ProcessMutex& mutex = process_mutex(LockOrder::page);
  std::string folder;
  Clock::time_point begin = Clock::now();
  std::time_t started = std::time(nullptr);
  Clock::time_point written{};
  std::vector<Made> made;
  std::unordered_map<std::uint64_t, std::size_t> places;  // by Specialization::id, into made
  std::size_t drawn = 0, left_out = 0;
  std::vector<std::pair<double, std::int64_t>> memory;  // bytes in use from each moment on
  std::int64_t in_use = 0;
};
RunLog& run_log();

inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// No page from here on. Says why, once.
void give_up(const char* why) noexcept;
// All that others call passes here.
template <class F>
void guarded(F f) noexcept {
  if (!is_on()) return;
  try {
    f();
  } catch (const std::exception& error) {
    give_up(error.what());
  } catch (...) {
    give_up("an exception of an unknown type");
  }
}

}  // namespace weft::detail::observer
