// What the user asked to see. WEFT_LOGS=guards,cache (or "all") switches channels on; a line goes to standard error as
// `[weft:cache] text`:
//   guards      what a new specialization relies on
//   recompiles  why none that was there did
//   fusion      its buffers, steps and loops, and why each kernel begins
//   kernels     each that is ready: bytes moved, operations, the file of its source, what it fuses
//   cache       what was compiled, found on disk, refused
//   passes      each in order: its time, and the nodes (steps, units, kernels) that it leaves
//   decisions   each on a value in a compiled function, as it is traced: its line and its outcome
// A channel that is off costs one load; nothing is formatted for it by a caller that asks first:
//   if (logging::enabled(logging::Channel::cache)) logging::write(logging::Channel::cache, concat_text("hit ", key));
// Warnings are always shown, each text once in a process.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

namespace weft::logging {

enum class Channel : std::uint8_t { guards, recompiles, fusion, kernels, cache, passes, decisions };

namespace detail {
extern std::atomic<std::uint32_t> enabled_channels;  // bit i is channel i; read from WEFT_LOGS when the library loads
}

inline bool enabled(Channel channel) {
  return detail::enabled_channels.load(std::memory_order_relaxed) >> static_cast<int>(channel) & 1U;
}

// Writes one line at once, so that lines of several threads don't mix. A channel that is off writes nothing.
void write(Channel channel, std::string_view text);

// `[weft] text`; a text that was shown before is not shown again.
void warn_once(std::string_view text);

// Switches channels on by their names, separated by commas, and all others off. Unknown names are warned about. For
// tests, as set_sink() is; a program sets WEFT_LOGS.
void set_channels(std::string_view names);

// Sends lines elsewhere; null goes back to standard error. Called under a lock.
using Sink = void (*)(void* context, std::string_view line);
void set_sink(Sink sink, void* context);

}  // namespace weft::logging
