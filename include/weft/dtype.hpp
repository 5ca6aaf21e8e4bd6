// Element types, devices, and PyTorch's promotion rules.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace weft {

// Storage of the 16-bit floating types; arithmetic happens in f32.
struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

enum class DType : std::uint8_t {
#define WEFT_DTYPE(name, ...) name,
#include "weft/dtypes.def"
#undef WEFT_DTYPE
};

enum class DTypeKind : std::uint8_t { boolean, integer, floating };

inline constexpr int dtype_count = 0
#define WEFT_DTYPE(...) +1
#include "weft/dtypes.def"
#undef WEFT_DTYPE
    ;

struct DTypeInfo {
  const char* name;
  int bits;
  int packing;  // elements of a unit of storage
  DTypeKind kind;
  DType computed, accumulated;
};

constexpr DTypeInfo info(DType dtype) {
  constexpr DTypeInfo table[] = {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, type) \
  {text, bits, packing, DTypeKind::kind, DType::computed, DType::accumulated},
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  };
  return table[static_cast<int>(dtype)];
}
constexpr DType computed_in(DType dtype) { return info(dtype).computed; }
constexpr DType accumulated_in(DType dtype) { return info(dtype).accumulated; }
constexpr bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::floating; }
constexpr bool is_integer(DType dtype) { return info(dtype).kind == DTypeKind::integer; }
// Bytes of `count` elements (a number or a Dim) that lie one behind the other, the last unit of storage whole. The one
// place where bits become bytes: tools/check_layers holds that.
template <class Count>
constexpr Count storage_bytes(const DTypeInfo& row, Count count) {
  const Count unit((row.bits * row.packing + 7) / 8);
  return (row.packing == 1 ? count : (count + Count(row.packing - 1)) / Count(row.packing)) * unit;
}
constexpr std::size_t storage_bytes(DType dtype, std::int64_t count) {
  return storage_bytes(info(dtype), static_cast<std::size_t>(count));
}

namespace detail {
// long and long long: one of them is std::int64_t, the other may be the same in memory.
template <class T>
inline constexpr bool is_long = false;
template <>
inline constexpr bool is_long<long> = sizeof(long) == 8;
template <>
inline constexpr bool is_long<long long> = true;
}  // namespace detail

template <class T>
inline constexpr bool is_element = detail::is_long<T>;
template <class T>
inline constexpr DType dtype_of = detail::is_long<T> ? DType::i64 : DType::f32;
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, type) \
  template <>                                                                    \
  inline constexpr bool is_element<type> = true;                                 \
  template <>                                                                    \
  inline constexpr DType dtype_of<type> = DType::name;                           \
  static_assert(storage_bytes(info(DType::name), std::size_t{1}) == sizeof(type));
#include "weft/dtypes.def"
#undef WEFT_DTYPE

// An operand as promotion sees it: PyTorch ranks dimensioned tensors over 0-d tensors over plain numbers (weak).
struct Promotable {
  DType dtype;
  bool scalar;  // rank 0
  bool weak;    // a C++ literal or a Scalar: takes the other side's dtype within its kind
};
// The dtype in which a binary operation computes, by PyTorch's table. f16 with bf16 gives f32.
DType promote(Promotable a, Promotable b);

// Where a value lives.
struct Device {
  enum class Type : std::uint8_t { cpu, cuda } type = Type::cpu;
  std::uint8_t index = 0;
  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {Type::cuda, static_cast<std::uint8_t>(index)}; }
  bool operator==(const Device&) const = default;
};

// f32, and cpu or cuda:0.
std::ostream& operator<<(std::ostream& out, DType dtype);
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace weft
