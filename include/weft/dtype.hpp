// Element types, devices, and PyTorch's promotion rules.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace weft {

namespace detail {
// Rounds x to a 16-bit float with this many fraction bits, to nearest, ties to even, and returns its bits. Overflow
// gives infinity; NaN stays NaN.
template <int fraction_bits>
constexpr std::uint16_t to_half(double x) {
  constexpr int bias = (1 << (14 - fraction_bits)) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x), infinity = std::uint64_t{2 * bias + 1} << fraction_bits;
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000);
  const std::uint64_t fraction = (bits & ~std::uint64_t{0} >> 12) | std::uint64_t{1} << 52;
  const int power = static_cast<int>(bits >> 52 & 0x7ff) - 1023 + bias;  // of the result; below 1: subnormal
  const int dropped = 52 - fraction_bits + (power < 1 ? 1 - power : 0);  // low bits of the fraction
  if (x != x) return static_cast<std::uint16_t>(sign | infinity | 1u << (fraction_bits - 1));
  if (dropped > 53) return sign;
  std::uint64_t size = (fraction + (std::uint64_t{1} << (dropped - 1)) - 1 + (fraction >> dropped & 1)) >> dropped;
  if (power > 1) size += static_cast<std::uint64_t>(power - 1) << fraction_bits;
  return static_cast<std::uint16_t>(sign | (size < infinity ? size : infinity));
}
}  // namespace detail

// Elements of 16-bit floating tensors. Constructed from a number, which is rounded once; from_bits takes the
// representation. Arithmetic happens in f32.
struct float16 {
  float16() = default;
  // Rounds once, to the nearest, ties to even; too large numbers become infinite.
  explicit constexpr float16(double number) : bits(detail::to_half<10>(number)) {}
  // The number that these bits are the representation of.
  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 result{};
    result.bits = bits;
    return result;
  }
  // Exact.
  explicit constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16, size = bits & 0x7fffu;
    if (size < 0x400) return sign ? -0x1p-24f * static_cast<float>(size) : 0x1p-24f * static_cast<float>(size);
    return std::bit_cast<float>(sign | ((size << 13) + (size < 0x7c00 ? 112u << 23 : 224u << 23)));
  }

  std::uint16_t bits;  // sign, 5 bits of exponent, 10 of fraction, as in IEEE 754
};
struct bfloat16 {  // 8 bits of exponent, 7 of fraction
  bfloat16() = default;
  // Rounds once, to the nearest, ties to even; too large numbers become infinite.
  explicit constexpr bfloat16(double number) : bits(detail::to_half<7>(number)) {}
  // The number that these bits are the representation of.
  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 result{};
    result.bits = bits;
    return result;
  }
  // Exact.
  explicit constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  std::uint16_t bits;  // the upper half of an f32
};

enum class DType : std::uint8_t {  // what the elements of a tensor are: the rows of dtypes.def
#define WEFT_DTYPE(name, ...) name,
#include "weft/dtypes.def"
#undef WEFT_DTYPE
};

enum class DTypeKind : std::uint8_t { boolean, integer, floating };  // of a dtype

// How many dtypes there are.
inline constexpr int dtype_count = 0
#define WEFT_DTYPE(...) +1
#include "weft/dtypes.def"
#undef WEFT_DTYPE
    ;

struct DTypeInfo {    // what is known of a dtype: a row of dtypes.def
  const char* name;   // as it is printed: "f32"
  int bits;           // of an element
  int packing;        // elements of a unit of storage
  DTypeKind kind;     // bool, an integer or a floating number
  DType computed;     // in which one operation is computed, before its result is rounded
  DType accumulated;  // in which sums and products of matrices are added up
};

// The rows of dtypes.def, by dtype; info() reads one.
inline constexpr DTypeInfo dtype_infos[] = {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, type) \
  {text, bits, packing, DTypeKind::kind, DType::computed, DType::accumulated},
#include "weft/dtypes.def"
#undef WEFT_DTYPE
};
constexpr const DTypeInfo& info(DType dtype) { return dtype_infos[static_cast<std::size_t>(dtype)]; }  // its row
constexpr DType computed_in(DType dtype) { return info(dtype).computed; }  // in which functions of floats are computed
constexpr DType accumulated_in(DType dtype) { return info(dtype).accumulated; }  // in which sums are accumulated
constexpr bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::floating; }  // f16, bf16, f32, f64
constexpr bool is_integer(DType dtype) { return info(dtype).kind == DTypeKind::integer; }    // not bool
// Bytes of `count` elements (a number or a Dim) that lie one after the other, the last unit of storage whole. The one
// place where bits become bytes: tools/check_layers checks that.
template <class Count>
constexpr Count storage_bytes(const DTypeInfo& row, Count count) {
  const auto unit = static_cast<Count>((row.bits * row.packing + 7) / 8);
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

// Whether tensors have elements of this type of C++.
template <class T>
inline constexpr bool is_element = detail::is_long<T>;
// The dtype of a tensor of such elements; means nothing for other types.
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
  DType dtype;  // of the operand
  bool scalar;  // rank 0
  bool weak;    // a C++ literal or a Scalar: takes the other side's dtype within its kind
};
// The dtype in which a binary operation computes, by PyTorch's table. f16 with bf16 gives f32.
DType promote(Promotable a, Promotable b);

// Where a value lives.
struct Device {
  // The memory of the host, or that of an NVIDIA GPU.
  enum class Type : std::uint8_t { cpu, cuda };

  Type type = Type::cpu;                        // the kind of memory
  std::uint8_t index = 0;                       // of the GPU, as CUDA counts; 0 for the host
  static constexpr Device cpu() { return {}; }  // the host
  // GPU number `index`, in [0, 256). Whether there is one is not asked here.
  static constexpr Device cuda(int index = 0) { return {Type::cuda, static_cast<std::uint8_t>(index)}; }
  bool operator==(const Device&) const = default;  // the same type and index
};

// f32, and cpu or cuda:0.
std::ostream& operator<<(std::ostream& out, DType dtype);
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace weft
