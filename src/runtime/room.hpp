// What a step reaches of its buffers, held against the memory that they have: asked of plans that a file gave, whose
// sizes, strides and offsets may be anything. In: numbers of a call. Out: whether it stays within. Nothing overflows.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "weft/dtype.hpp"

namespace weft::runtime {

// The memory of a step's buffer.
struct Room {
  std::int64_t bytes = 0;
  std::int64_t alignment = 64;  // of its first byte: a power of two
  bool may_write = true;
};

// The elements of a buffer that a step reads or writes: from one on, along axes of sizes and strides.
class Reach {
 public:
  using Int = std::int64_t;
  static constexpr Int most = Int{1} << 48;  // elements, or bytes

  explicit Reach(Int first = 0) : low_(first), high_(first), good_(is_size(first)) {}
  // Of a row-major array.
  static Reach of(std::initializer_list<Int> sizes, Int first = 0) {
    Reach all(first);
    Int count = 1;
    for (const Int size : sizes) {
      all.good_ = all.good_ && is_size(size) && !__builtin_mul_overflow(count, size, &count);
      all.empty_ = all.empty_ || size == 0;
    }
    return all.along(all.good_ ? count : 0, 1);
  }
  Reach& along(Int size, Int stride) {
    Int way = 0;
    good_ = good_ && is_size(size) && stride < most && stride > -most;
    empty_ = empty_ || size <= 0;
    if (!good_ || empty_) return *this;
    Int& end = stride < 0 ? low_ : high_;
    good_ = !__builtin_mul_overflow(size - 1, stride, &way) && !__builtin_add_overflow(end, way, &end);
    return *this;
  }
  bool is_in(const Room& room, DType dtype) const {
    if (!good_ || empty_) return good_;
    const auto element = static_cast<Int>(storage_bytes(dtype, 1));
    return low_ >= 0 && high_ < most && static_cast<Int>(storage_bytes(dtype, high_ + 1)) <= room.bytes &&
           (element & (element - 1)) == 0 && room.alignment % element == 0;
  }
  bool may_write(const Room& room, DType dtype) const { return room.may_write && is_in(room, dtype); }

  static bool is_size(Int number) { return number >= 0 && number < most; }

 private:
  Int low_, high_;
  bool good_, empty_ = false;
};

}  // namespace weft::runtime
