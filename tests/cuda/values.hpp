// Random values on the device, what they are on the host, and how far two of them are apart.
#pragma once
#include <cmath>
#include <string>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

namespace cuda_test {

// Normal, times `scale`; the same numbers for the same seed.
inline Tensor there(const Sizes& sizes, std::uint64_t seed, DType dtype, double scale = 1) {
  return to(cast(sample(sizes, seed) * scale, dtype), Device::cuda()).eval();
}
// The same value on the host, in f32.
inline Tensor here(const Tensor& value) { return cast(to(value, Device::cpu()), DType::f32); }

// The norm of the difference, as a part of the norm of the reference, which is a value of the host in f32.
inline double apart(const Tensor& device, const Tensor& reference) {
  const Tensor difference = here(device) - reference;
  return std::sqrt(sum(square(difference)).item()) / (std::sqrt(sum(square(reference)).item()) + 1e-3);
}

inline int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace cuda_test
