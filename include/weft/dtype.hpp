// Element types, devices, and PyTorch's promotion rules.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace weft {

namespace detail {
// Rounds x to a float of 8 or 16 bits with these bits of exponent and fraction, to nearest, ties to even, and returns
// its bits. Overflow gives infinity, or NaN where there is none; NaN stays NaN.
template <int exponent_bits, int fraction_bits, bool has_infinity = true>
constexpr std::uint16_t to_narrow(double x) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1, size_bits = exponent_bits + fraction_bits;
  const auto bits = std::bit_cast<std::uint64_t>(x), infinity = std::uint64_t{2 * bias + 1} << fraction_bits;
  const std::uint64_t nan = infinity | (size_bits == 7 ? (1u << fraction_bits) - 1 : 1u << (fraction_bits - 1));
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << size_bits);
  const std::uint64_t fraction = (bits & ~std::uint64_t{0} >> 12) | std::uint64_t{1} << 52;
  const int power = static_cast<int>(bits >> 52 & 0x7ff) - 1023 + bias;  // of the result; below 1: subnormal
  const int dropped = 52 - fraction_bits + (power < 1 ? 1 - power : 0);  // low bits of the fraction
  if (x != x) return static_cast<std::uint16_t>(sign | nan);
  if (dropped > 53) return sign;
  std::uint64_t size = (fraction + (std::uint64_t{1} << (dropped - 1)) - 1 + (fraction >> dropped & 1)) >> dropped;
  if (power > 1) size += static_cast<std::uint64_t>(power - 1) << fraction_bits;
  const std::uint64_t beyond = has_infinity ? infinity : nan;
  return static_cast<std::uint16_t>(sign | (size < beyond ? size : beyond));
}
}  // namespace detail

// Elements of 16-bit floating tensors. Constructed from a number, which is rounded once; from_bits takes the
// representation. Arithmetic happens in f32.
struct float16 {
  float16() = default;
  // Rounds once, to the nearest, ties to even; too large numbers become infinite.
  explicit constexpr float16(double number) : bits(detail::to_narrow<5, 10>(number)) {}
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
  explicit constexpr bfloat16(double number) : bits(detail::to_narrow<8, 7>(number)) {}
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

// Elements of 8-bit floating tensors, which hold numbers: a tensor of them is cast before anything is computed.
// 1 bit of sign, 4 of exponent, 3 of fraction: up to 448, NaN as 0x7f and 0xff, and no infinity.
struct float8_e4m3fn {
  float8_e4m3fn() = default;
  // Rounds once, to the nearest, ties to even; what would be above 448, an infinity too, becomes NaN.
  explicit constexpr float8_e4m3fn(double number)
      : bits(static_cast<std::uint8_t>(detail::to_narrow<4, 3, false>(number))) {}
  // The number that these bits are the representation of.
  static constexpr float8_e4m3fn from_bits(std::uint8_t bits) {
    float8_e4m3fn result{};
    result.bits = bits;
    return result;
  }
  // Exact.
  explicit constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x80u) << 24, size = bits & 0x7fu;
    if (size < 8) return sign ? -0x1p-9f * static_cast<float>(size) : 0x1p-9f * static_cast<float>(size);
    return std::bit_cast<float>(sign | (size < 0x7f ? (size << 20) + (120u << 23) : 0x7fc00000u));
  }

  std::uint8_t bits;  // sign, 4 bits of exponent, 3 of fraction
};
// 5 bits of exponent, 2 of fraction: the upper half of a float16.
struct float8_e5m2 {
  float8_e5m2() = default;
  // Rounds once, to the nearest, ties to even; too large numbers become infinite.
  explicit constexpr float8_e5m2(double number) : bits(static_cast<std::uint8_t>(detail::to_narrow<5, 2>(number))) {}
  // The number that these bits are the representation of.
  static constexpr float8_e5m2 from_bits(std::uint8_t bits) {
    float8_e5m2 result{};
    result.bits = bits;
    return result;
  }
  // Exact.
  explicit constexpr operator float() const {
    return static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits << 8)));
  }

  std::uint8_t bits;  // sign, 5 bits of exponent, 2 of fraction
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
  int exponent;       // bits of a float's exponent; 0 of others
};

// The rows of dtypes.def, by dtype; info() reads one.
inline constexpr DTypeInfo dtype_infos[] = {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  {text, bits, packing, DTypeKind::kind, DType::computed, DType::accumulated, exponent},
#include "weft/dtypes.def"
#undef WEFT_DTYPE
};
constexpr const DTypeInfo& info(DType dtype) { return dtype_infos[static_cast<std::size_t>(dtype)]; }  // its row
constexpr DType computed_in(DType dtype) { return info(dtype).computed; }  // in which functions of floats are computed
constexpr DType accumulated_in(DType dtype) { return info(dtype).accumulated; }  // in which sums are accumulated
constexpr bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::floating; }  // of 8 to 64 bits
constexpr bool is_integer(DType dtype) { return info(dtype).kind == DTypeKind::integer; }    // not bool
// Whether it is a float that holds numbers and computes nothing: f8e4m3, f8e5m2. PyTorch refuses the same of them.
constexpr bool only_holds(DType dtype) { return is_floating(dtype) && info(dtype).bits == 8; }
// Whether it is a float that is computed in a wider one and rounded: of 8 or 16 bits.
constexpr bool is_narrow_float(DType dtype) { return is_floating(dtype) && info(dtype).computed != dtype; }
// Bits of a float's significand, with the one before the point.
constexpr int significand(DType dtype) { return info(dtype).bits - info(dtype).exponent; }
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
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  template <>                                                                              \
  inline constexpr bool is_element<type> = true;                                           \
  template <>                                                                              \
  inline constexpr DType dtype_of<type> = DType::name;                                     \
  static_assert(storage_bytes(info(DType::name), std::size_t{1}) == sizeof(type));
#include "weft/dtypes.def"
#undef WEFT_DTYPE

// An operand as promotion sees it: PyTorch ranks dimensioned tensors over 0-d tensors over plain numbers (weak).
struct Promotable {
  DType dtype;  // of the operand
  bool scalar;  // rank 0
  bool weak;    // a C++ literal or a Scalar: takes the other side's dtype within its kind
};
// The dtype in which a binary operation computes, by PyTorch's table. f16 with bf16 gives f32. Throws Error where a
// float of 8 bits meets another dtype, but for a plain number.
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
