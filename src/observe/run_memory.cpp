#include "observe/run_memory.hpp"

#include <algorithm>

#include "base/storage.hpp"

namespace weft::detail::observer {
namespace {

constexpr std::size_t most_moments = 4096;

// Two moments become one, of the larger value: no peak is lost.
void halve(std::vector<std::pair<double, std::int64_t>>& moments) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < moments.size(); i += 2, ++kept) {
    const std::size_t other = std::min(i + 1, moments.size() - 1);
    moments[kept] = {moments[i].first, std::max(moments[i].second, moments[other].second)};
  }
  moments.resize(kept);
}
// The mutex is held.
void note_storage(RunLog& s, std::int64_t bytes) {
  s.in_use += bytes;
  s.memory.emplace_back(seconds_between(s.begin, Clock::now()), s.in_use);
  if (s.memory.size() > most_moments) halve(s.memory);
}
void note_storage(std::int64_t bytes) noexcept {
  guarded([&] {
    RunLog& s = run_log();
    const std::lock_guard lock(s.mutex);
    note_storage(s, bytes);
  });
}

}  // namespace

void begin_memory(RunLog& log) { note_storage(log, tell_of_storage(note_storage)); }

}  // namespace weft::detail::observer
