// Errors of a device that is not there reach the program, whose own copy of libgcc unwinds: linked with -static-libgcc.
#include <cstdio>
#include <cstring>

#include "weft/cuda.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

int main() {
  using namespace weft;
  int caught = 0;
  for (int i = 0; i < 2; ++i) {  // the second time, too
    try {
      cuda::synchronize(Device::cuda(63));
    } catch (const Error& error) {
      std::puts(error.what());
      caught += std::strstr(error.what(), "[synchronize] ") != nullptr;
    }
    try {
      cuda::memory_stats(Device::cuda(63));
    } catch (const Error& error) {
      caught += std::strstr(error.what(), "[memory_stats] ") != nullptr;
    }
    try {
      to(ones({2}), Device::cuda(63)).eval();
    } catch (const Error& error) {
      std::puts(error.what());
      caught += std::strstr(error.what(), "can't be used") != nullptr;
    }
  }
  return caught == 6 && !cuda::is_available(Device::cuda(63)) ? 0 : 1;
}
