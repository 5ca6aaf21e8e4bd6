// What the tests on a device share.
#pragma once
#include <doctest/doctest.h>

#include "runtime/cuda/device.hpp"
#include "tests/needs.hpp"
#include "weft/random.hpp"

namespace cuda_test {

using namespace weft;

// What lacks where no device can be used.
inline std::string a_device() {
  try {
    runtime::cuda::use(Device::cuda());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

inline Tensor sample(const Sizes& sizes, std::uint64_t seed) {
  Generator generator(seed);
  return normal(sizes, 0, 1, generator);
}

}  // namespace cuda_test
