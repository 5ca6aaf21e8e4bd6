#include "runtime/cuda/dnn_library.hpp"

#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {

DnnLibrary& DnnLibrary::of(const DeviceState& device) {
  static constinit PerDevice<DnnLibrary> all;
  return all.of(device.device);
}

DnnHandle* DnnLibrary::opened() {
  if (!handle_) check_dnn(dnn().cudnnCreate(&handle_), "cudnnCreate");
  return handle_;
}

DnnLibrary::Borrowed::Borrowed(DnnLibrary& library, bool alone)
    : library_(library), running_(library.mutex, std::defer_lock) {
  if (alone) running_.lock();
  if (running_ || running_.try_lock()) {
    handle_ = library.opened();
    return;
  }
  {
    const std::lock_guard lock(library.idle_mutex_);
    if (!library.idle_.empty()) {
      handle_ = library.idle_.back();
      library.idle_.pop_back();
      return;
    }
  }
  check_dnn(dnn().cudnnCreate(&handle_), "cudnnCreate");
}

DnnLibrary::Borrowed::~Borrowed() {
  if (running_) return;
  const std::lock_guard lock(library_.idle_mutex_);
  library_.idle_.push_back(handle_);
}

}  // namespace weft::runtime::cuda
