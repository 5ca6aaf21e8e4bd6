// The words that failed checks set: each thread that uses a device has one there and one in the host's memory. In:
// checks of a call, which set the word of the thread that called. Out: the user's Error, thrown in that thread, or in
// one that takes what such a call made (base/failed_checks.hpp). Invariant: only its own thread sets a word back to 0.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/failed_checks.hpp"
#include "base/storage.hpp"
#include "runtime/cuda/libraries.hpp"

namespace weft::runtime::cuda {

struct DeviceState;

struct CheckWords {
  // Of a word: the number of the thread that used it last; 0: none has. Whether that has queued calls since it waited.
  struct alignas(64) User {
    std::atomic<std::uint64_t> maker{0};
    std::atomic<bool> has_queued{false};
  };

  Pointer on_device = 0;
  volatile std::int32_t* on_host = nullptr;
  std::unique_ptr<User[]> users;

  void open(Stream* stream);
  // The word in the host's memory that belongs to this one of the device.
  std::intptr_t on_host_of(const void* word) const {
    return reinterpret_cast<std::intptr_t>(on_host) +
           (reinterpret_cast<std::intptr_t>(word) - static_cast<std::intptr_t>(on_device));
  }
};

// Memory of a device.
struct DeviceBlock : Storage {
  std::size_t capacity = 0;
  // The number of the thread whose call made the value, while a check of that call may still fail; else 0.
  std::atomic<std::uint64_t> maker{0};
};

// The word of this thread, on the device. Throws Error where there are as many living threads that use devices as
// words.
void* own_check_word(DeviceState& state);
// Throws what a check of this thread's calls has found, once. `waits`: the device has been waited for; else a call
// follows.
void throw_failed_check(DeviceState& state, bool waits);

// The number of an error that a check may find, from 1 on. Messages are kept: as many as there are different ones.
std::int32_t error_number(const std::string& message);

// `free`: that of the blocks of devices, which tells them from other memory.
void register_failed_checks(void (*free)(Storage*));

}  // namespace weft::runtime::cuda
