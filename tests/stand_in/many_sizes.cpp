// many_sizes DRIVER: an operation that is evaluated for many sizes is compiled once for all of them; where that fails,
// for each size alone, and it is not tried again. DRIVER is the path of the stand-in (bench/no_gpu), of which it is
// asked that modules can't be loaded. Ends with 0 when all is right.
#include <dlfcn.h>

#include <cstdio>
#include <weft/weft.hpp>

#include "eager/device.hpp"

using namespace weft;

namespace {

constexpr int sizes_alone = 16;  // most_sizes of src/eager/device.cpp: of operations whose code is mostly the same

// How many are compiled where the operation is evaluated for so many sizes.
template <class Operation>
std::int64_t compiled_for(int count, Operation operation, void (*before)(int)) {
  const std::int64_t from = eager::compiled_operations();
  for (int i = 0; i < count; ++i) {
    before(i);
    operation(zeros({5 + i, 40 + 3 * i}, {.device = Device::cuda()}).eval()).eval();
  }
  return eager::compiled_operations() - from;
}

void (*refuse_modules)(int) = nullptr;

}  // namespace

int main(int count, char** arguments) {
  void* const driver = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
  refuse_modules = driver ? reinterpret_cast<void (*)(int)>(dlsym(driver, "fake_refuse_modules")) : nullptr;
  if (!refuse_modules) return 2;
  constexpr int more = 6;
  const auto nothing = [](int) {};
  const auto refuse = [](int i) {
    if (i == sizes_alone) refuse_modules(1);
  };
  // Zeros of all sizes are compiled before, so that they do not count.
  compiled_for(
      30, [](const Tensor& x) { return x; }, nothing);
  const std::int64_t once = compiled_for(
      sizes_alone + more, [](const Tensor& x) { return sum(x, -1); }, nothing);
  const std::int64_t each = compiled_for(
      sizes_alone + more, [](const Tensor& x) { return amax(x, -1); }, refuse);
  std::printf("%lld compiled, %lld where all sizes are refused\n", static_cast<long long>(once),
              static_cast<long long>(each));
  return once == sizes_alone + 1 && each == sizes_alone + more ? 0 : 1;
}
