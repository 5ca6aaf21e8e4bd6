// What the tests of attention on a device share.
#pragma once
#include "tests/cuda/values.hpp"

namespace cuda_test {

struct Operands {
  Tensor q, k, v;
  WEFT_MEMBERS(q, k, v)
};
struct Results {
  Tensor output;
  Operands gradients;
  WEFT_MEMBERS(output, gradients)
};

inline Operands here(const Operands& at) { return {here(at.q), here(at.k), here(at.v)}; }

// Of gradients too.
inline void check_close(const Operands& device, const Operands& reference, double within) {
  CHECK(apart(device.q, reference.q) <= within);
  CHECK(apart(device.k, reference.k) <= within);
  CHECK(apart(device.v, reference.v) <= within);
}
inline void check_close(const Results& device, const Results& reference, double within) {
  CHECK(apart(device.output, reference.output) <= within);
  check_close(device.gradients, reference.gradients, within);
}

inline constexpr CompileOptions raising{.on_compile_error = OnFailure::raise};

}  // namespace cuda_test
