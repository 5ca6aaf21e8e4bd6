// cuDNN on a device: one handle, which one thread at a time uses. In: a device's state. Out: the handle, made at the
// first use.
#pragma once
#include <mutex>

#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {

struct DnnLibrary {
  std::mutex mutex;  // of the handle

  static DnnLibrary& of(const DeviceState& device);
  // Under the mutex. Throws Error where the library is missing.
  DnnHandle* opened();

 private:
  DnnHandle* handle_ = nullptr;
};

}  // namespace weft::runtime::cuda
