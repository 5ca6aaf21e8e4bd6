// What the tests of products by our own kernels share: their operands, and what a product of them must be.
#pragma once
#include <string>
#include <vector>

#include "base/options.hpp"
#include "tests/cuda/values.hpp"
#include "tests/runtime/support.hpp"
#include "tests/sanitized.hpp"

namespace cuda_test {

using Operands = std::vector<Tensor>;

// What lacks where the device is no Hopper GPU, which the kernels are for.
inline std::string a_hopper_device() {
  std::string why = a_device();
  if (why.empty() && !runtime::cuda::use(Device::cuda()).has(DeviceInstruction::wgmma))
    why = "the kernels are for Hopper GPUs";
  return why;
}

// Rounding to a 16-bit dtype changes a value by less than this part of it.
inline double unit_of(DType dtype) { return dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048; }

// Against the same numbers in f32 on the device, whose sums may be in another order. Each call gives the same bits. The
// schedule says `by` of the kernel.
template <class F>
void check_product(F f, const Operands& operands, const char* by) {
  const test::KeepOptions keep;
  options().own_kernels = 2;
  const auto compiled = compile(f);
  Operands wide;
  for (const Tensor& each : operands) wide.push_back(cast(each, DType::f32).eval());
  const Tensor right = f(wide).eval(), first = compiled(operands).eval();
  const double apart = amax(abs(cast(first, DType::f32) - right)).item();
  CHECK(apart <= amax(abs(right)).item() * unit_of(operands[0].dtype()));
  CHECK(apart > 0);  // it is rounded
  const int calls = test::under_device_tool() ? 1 : 5;
  for (int call = 0; call < calls; ++call) CHECK(amax(abs(cast(compiled(operands) - first, DType::f32))).item() == 0);
  CHECK(explain(compiled, operands).schedule.find(by) != std::string::npos);
}

}  // namespace cuda_test
