// What our own kernels of attention are given, whichever they are: a part of their arguments. In: the sizes of a call
// and its buffers.
#pragma once
#include "base/fail.hpp"
#include "base/storage.hpp"
#include "runtime/cuda/attention.hpp"
#include "runtime/cuda/kernel_arguments.hpp"

namespace weft::runtime::cuda {

inline constexpr int no_bound = 1 << 29;  // more keys than there are

inline HeadStrides head_strides(const AttentionSizes& sizes, Attended value) {
  const auto& all = sizes.strides[static_cast<std::size_t>(value)];
  return {all[0], all[1], all[2]};
}

inline AttentionCounts attention_counts(const AttentionSizes& sizes) {
  return {static_cast<int>(sizes.batch),   static_cast<int>(sizes.heads), static_cast<int>(sizes.key_heads),
          static_cast<int>(sizes.queries), static_cast<int>(sizes.keys),  sizes.scale};
}

// Where the value begins in its buffer: where `is_aligned` asks for it, at a multiple of 16 bytes. Providers offer no
// other offsets (Provider::alignment), and memory of others that begins elsewhere was copied (interop/strided.cpp).
inline void* attended_place(const AttentionSizes& sizes, Attended value, void* buffer, std::int64_t offset,
                            bool is_aligned) {
  void* const place = static_cast<std::byte*>(buffer) + storage_bytes(info(sizes.dtype_of(value)), offset);
  WEFT_CHECK(!is_aligned || reinterpret_cast<std::uintptr_t>(place) % 16 == 0, "attention reads a value at ", place);
  return place;
}

// Fills a result of a call that has no queries or no keys, where there is nothing to add up: stats with -inf, others
// with 0.
inline void fill_empty(const AttentionSizes& sizes, Attended value, void* place, Stream* stream) {
  const auto size = sizes.sizes_of(value), stride = sizes.strides[static_cast<std::size_t>(value)];
  const std::size_t element = value == Attended::stats ? 4 : 2, width = static_cast<std::size_t>(size[3]) * element / 4,
                    rows = static_cast<std::size_t>(size[2]);
  constexpr unsigned minus_infinity = 0xff800000;
  if (width * rows == 0) return;
  for (std::int64_t batch = 0; batch < size[0]; ++batch)
    for (std::int64_t head = 0; head < size[1]; ++head) {
      const std::int64_t first = batch * stride[0] + head * stride[1];
      check(driver().cuMemsetD2D32Async(reinterpret_cast<Pointer>(place) + static_cast<std::size_t>(first) * element,
                                        static_cast<std::size_t>(stride[2]) * element,
                                        value == Attended::stats ? minus_infinity : 0, width, rows, stream),
            "cuMemsetD2D32Async");
    }
}

}  // namespace weft::runtime::cuda
