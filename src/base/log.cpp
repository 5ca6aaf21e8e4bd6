#include "base/log.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <mutex>
#include <set>
#include <string>

#include "base/file_size_signal.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"

namespace weft::logging {

namespace {

constexpr std::string_view channel_names[] = {"guards", "recompiles", "fusion",   "kernels",
                                              "cache",  "passes",     "decisions"};
static_assert(std::size(channel_names) == static_cast<std::size_t>(Channel::decisions) + 1);

struct State {
  ProcessMutex& mutex = process_mutex(LockOrder::log);
  Sink sink = nullptr;
  void* context = nullptr;
  std::set<std::string, std::less<>> warned;
};

State& state() {
  static constinit Lazy<State> instance;
  return instance.get();
}

void emit(State& state, const std::string& line) {
  if (state.sink) return state.sink(state.context, std::string_view(line).substr(0, line.size() - 1));
  const NoFileSizeSignal guard;  // standard error may be a file
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t count = ::write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (count <= 0) return;  // a closed standard error is no reason to fail
    written += static_cast<std::size_t>(count);
  }
}

std::uint32_t channels_of(std::string_view names) {
  std::uint32_t bits = 0;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    bool known = name.empty() || name == "all";
    if (name == "all") bits = ~0U;
    for (std::size_t i = 0; i < std::size(channel_names); ++i) {
      if (name != channel_names[i]) continue;
      bits |= 1U << i;
      known = true;
    }
    if (known) continue;
    std::string text = "WEFT_LOGS has no channel '" + std::string(name) + "'; there are:";
    for (std::string_view each : channel_names) text.append(" ").append(each);
    warn_once(text);
  }
  return bits;
}

std::uint32_t channels_of_environment() {
  const char* names = std::getenv("WEFT_LOGS");
  return names ? channels_of(names) : 0;
}

}  // namespace

namespace detail {
std::atomic<std::uint32_t> enabled_channels = channels_of_environment();
}

void set_channels(std::string_view names) { detail::enabled_channels = channels_of(names); }

void write(Channel channel, std::string_view text) {
  if (!enabled(channel)) return;
  std::string line = "[weft:" + std::string(channel_names[static_cast<int>(channel)]) + "] ";
  line.append(text).append("\n");
  const std::lock_guard lock(state().mutex);
  emit(state(), line);
}

void warn_once(std::string_view text) {
  const std::lock_guard lock(state().mutex);
  if (!state().warned.emplace(text).second) return;
  emit(state(), "[weft] " + std::string(text) + "\n");
}

void set_sink(Sink sink, void* context) {
  const std::lock_guard lock(state().mutex);
  state().sink = sink;
  state().context = context;
}

}  // namespace weft::logging
