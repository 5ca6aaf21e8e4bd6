// What the copy engine of a Hopper GPU knows of a value of 16-bit floats: a tensor map, an argument of kernels.
#pragma once
#include <cstdint>
#include <span>

#include "weft/dtype.hpp"

namespace weft::runtime::cuda {

struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

// From the innermost axis on, whose stride is 1. `box`: of what is fetched at once; that of the innermost axis is 64
// elements, 128 bytes.
struct MappedAxis {
  std::int64_t size, stride;
  std::uint32_t box;
};

// Up to four axes. Elements outside read as zero, and are not written. False where the driver refuses.
bool describe(TensorMap& map, DType dtype, const void* at, std::span<const MappedAxis> axes);

}  // namespace weft::runtime::cuda
