// Elements that lie with strides. Sizes and strides are counted in elements, an axis each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft {

inline bool is_row_major(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  std::int64_t expected = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    if (sizes[axis] != 1 && strides[axis] != expected) return false;
    expected *= sizes[axis];
  }
  return true;
}

// Writes the elements to `to`, in row-major order, each of `element` bytes. Returns where the next ones go.
inline std::uint8_t* copy_to_row_major(std::uint8_t* to, const std::uint8_t* from, std::span<const std::int64_t> sizes,
                                       std::span<const std::int64_t> strides, std::size_t element) {
  if (sizes.empty()) {
    std::memcpy(to, from, element);
    return to + element;
  }
  if (sizes.size() == 1 && strides[0] == 1) {
    const std::size_t bytes = static_cast<std::size_t>(sizes[0]) * element;
    if (bytes) std::memcpy(to, from, bytes);
    return to + bytes;
  }
  for (std::int64_t i = 0; i < sizes[0]; ++i)
    to = copy_to_row_major(to, from + i * strides[0] * static_cast<std::int64_t>(element), sizes.subspan(1),
                           strides.subspan(1), element);
  return to;
}

}  // namespace weft
