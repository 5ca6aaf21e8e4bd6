#include "runtime/cuda/dnn_library.hpp"

#include <array>

#include "base/lazy.hpp"

namespace weft::runtime::cuda {

DnnLibrary& DnnLibrary::of(const DeviceState& device) {
  static constinit Lazy<std::array<DnnLibrary, 64>> all;
  return all.get()[device.device.index];
}

DnnHandle* DnnLibrary::opened() {
  if (!handle_) check_dnn(dnn().cudnnCreate(&handle_), "cudnnCreate");
  return handle_;
}

}  // namespace weft::runtime::cuda
