#include "runtime/cuda/tensor_map.hpp"

#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {

bool describe(TensorMap& map, DType dtype, const void* at, std::span<const MappedAxis> axes) {
  // Numbers of cuda.h.
  constexpr int f16 = 6, bf16 = 9, no_interleave = 0, swizzle_128 = 3, promotion_256 = 3, zeros_outside = 0;
  constexpr std::size_t most = 4;
  std::uint64_t sizes[most], strides[most];
  std::uint32_t boxes[most], steps[most];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    sizes[i] = static_cast<std::uint64_t>(axes[i].size), boxes[i] = axes[i].box, steps[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<std::uint64_t>(axes[i].stride) * 2;  // bytes
  }
  return driver().cuTensorMapEncodeTiled(&map, dtype == DType::f16 ? f16 : bf16, static_cast<unsigned>(axes.size()),
                                         const_cast<void*>(at), sizes, strides, boxes, steps, no_interleave,
                                         swizzle_128, promotion_256, zeros_outside) == 0;
}

}  // namespace weft::runtime::cuda
