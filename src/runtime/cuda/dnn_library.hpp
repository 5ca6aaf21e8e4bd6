// cuDNN on a device: handles, each of which one thread at a time uses. In: a device's state. Out: the handle that runs,
// made at the first use, and others to ask with.
#pragma once
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {

struct DnnLibrary {
  std::mutex mutex;  // of the handle that runs

  static DnnLibrary& of(const DeviceState& device);
  // Under the mutex. Throws Error where the library is missing.
  DnnHandle* opened();

  // A handle of the caller's own: the one that runs where nobody has it, else one more. `alone`: the one that runs,
  // which is waited for, so that nobody else's work is on the device meanwhile.
  class Borrowed {
   public:
    explicit Borrowed(DnnLibrary& library, bool alone = false);
    ~Borrowed();
    DnnHandle* get() const { return handle_; }

   private:
    DnnLibrary& library_;
    std::unique_lock<std::mutex> running_;
    DnnHandle* handle_ = nullptr;
  };

 private:
  DnnHandle* handle_ = nullptr;
  std::mutex idle_mutex_;
  std::vector<DnnHandle*> idle_;
};

}  // namespace weft::runtime::cuda
