// Whom a failed check of a device is told. A check does not wait for the device: it fails after its call has
// returned. The thread whose call it is throws the user's Error when it next calls or waits. Another thread that
// takes a result of any call of that thread waits for the device first, and throws the same Error until the first
// thread has been told; after that nobody is told again. In: the memory of a call's arguments and results.
// Invariant: a thread throws no Error of a thread whose values it does not use.
#pragma once
#include <atomic>
#include <span>

#include "weft/dtype.hpp"

namespace weft {

struct Storage;

// A device's side, registered when it is loaded.
struct FailedChecks {
  // This thread's next call reads `arguments` and writes `results`. `pending`: a check of it may fail after it has
  // returned. `settles`: state would follow from arguments whose checks may still fail, so these are waited for.
  void (*note_call)(std::span<Storage* const> arguments, std::span<Storage* const> results, bool pending, bool settles);
  // Throws if a check has failed of the call that made the value in this memory. The device has been waited for.
  void (*require_good)(Storage& storage);
  // Waits for all that was queued, and throws no failed check: it stays for the thread whose call it is.
  void (*wait)(Device device);
};
inline constinit std::atomic<const FailedChecks*> failed_checks{nullptr};

inline void note_device_call(std::span<Storage* const> arguments, std::span<Storage* const> results,
                             bool pending = false, bool settles = false) {
  if (const FailedChecks* const checks = failed_checks.load(std::memory_order_acquire))
    checks->note_call(arguments, results, pending, settles);
}
inline void require_good(Storage& storage) {
  if (const FailedChecks* const checks = failed_checks.load(std::memory_order_acquire)) checks->require_good(storage);
}

}  // namespace weft
