// The device that tests of all executors run on besides the host: WEFT_TEST_DEVICE=cuda, as tools/test_gpu sets it.
#pragma once
#include <cstdlib>
#include <string_view>

#include "weft/dtype.hpp"

namespace weft::test {

inline Device test_device() {
  static const Device device = [] {
    const char* name = std::getenv("WEFT_TEST_DEVICE");
    return name && std::string_view(name) == "cuda" ? Device::cuda(0) : Device::cpu();
  }();
  return device;
}
inline bool on_device() { return test_device().type != Device::Type::cpu; }

}  // namespace weft::test
