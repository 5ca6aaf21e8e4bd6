// Something of each device, for the life of the process: made where the first device asks for its own, and never
// destroyed. In: a device. Out: what is its own. Declare it `static constinit`.
#pragma once
#include <array>

#include "base/lazy.hpp"
#include "base/storage.hpp"

namespace weft::runtime::cuda {

inline constexpr int most_devices = 64;

template <class T>
class PerDevice {
 public:
  // Of one that use() has found.
  T& of(Device device) { return all_.get()[device.index]; }

 private:
  Lazy<std::array<T, most_devices>> all_;
};

}  // namespace weft::runtime::cuda
