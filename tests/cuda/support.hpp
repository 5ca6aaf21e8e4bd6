// What the tests on a device share.
#pragma once
#include <doctest/doctest.h>

#include "runtime/cuda/device.hpp"
#include "weft/random.hpp"

namespace cuda_test {

using namespace weft;

// Whether there is no device: then the test says that it was left out.
inline bool no_device() {
  static const std::string reason = [] {
    try {
      runtime::cuda::use(Device::cuda());
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }();
  if (!reason.empty()) MESSAGE("left out: ", reason);
  return !reason.empty();
}

inline Tensor sample(const Sizes& sizes, std::uint64_t seed) {
  Generator generator(seed);
  return normal(sizes, 0, 1, generator);
}

}  // namespace cuda_test
