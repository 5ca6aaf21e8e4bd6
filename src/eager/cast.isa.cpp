// Eager kernels that convert between dtypes. The floats of 8 and 16 bits are converted from and to f32 exactly as the
// lanes do not hold them; from types wider than f32 they round once, through a float rounded to odd (Boldo and
// Melquiond, 2008).
#include "eager/kernels.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::eager::WEFT_ISA_NAMESPACE {
namespace {
using namespace weft::lanes;
#include "eager/loop.inc"

// What a storage type is on lanes: bool as the bytes 0 and 1.
template <class To, class From>
void cast_vectors(void* result, const VectorOperand* operands, std::int64_t vectors) {
  each_vector<1, From, From, To>(
      result, operands, vectors, [](auto a, auto, auto) __attribute__((always_inline)) {
        if constexpr (same_type<From, bool>)
          return convert<To>(convert<unsigned char>(a));
        else
          return convert<To>(a);
      });
}

// The integers that are computed in a wider one: from a float held in range first.
template <class To, class From>
void cast_to_narrow(void* result, const VectorOperand* operands, std::int64_t vectors) {
  each_vector<1, From, From, To>(
      result, operands, vectors, [](auto a, auto, auto) __attribute__((always_inline)) {
        if constexpr (element_traits<From>::is_float)
          return convert_lanes<To>(
              minimum(maximum(convert<long>(a), long(smallest_value<To>())), long(largest_value<To>())));
        else
          return convert_lanes<To>(a);
      });
}
template <class To, class From>
void cast_from_narrow(void* result, const VectorOperand* operands, std::int64_t vectors) {
  each_vector<1, From, From, To>(
      result, operands, vectors,
      [](auto a, auto, auto) __attribute__((always_inline)) { return convert_lanes<To>(a); });
}

// ---- 16-bit floats: plain loops over bits, which the compiler turns into vectors ------------------------------------

inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float from_bits(std::uint32_t x) { return __builtin_bit_cast(float, x); }

inline float widen_bf16(std::uint16_t x) { return from_bits(std::uint32_t{x} << 16); }
inline std::uint16_t narrow_bf16(float x) {
  std::uint32_t bits = bits_of(x);
  std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = (bits >> 16) | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}
// The exponent moves by 112; denormals are made normal by subtracting the value of their leading one.
inline float widen_f16(std::uint16_t x) {
  std::uint32_t sign = (x & 0x8000u) << 16, rest = (x & 0x7fffu) << 13;
  std::uint32_t normal = rest + (112u << 23), special = rest + (224u << 23);
  std::uint32_t denormal = bits_of(from_bits(rest + (113u << 23)) - from_bits(113u << 23));
  std::uint32_t size = rest >= (31u << 23) ? special : rest < (1u << 23) ? denormal : normal;
  return from_bits(sign | size);
}
inline std::uint16_t narrow_f16(float x) {
  std::uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  std::uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  std::uint32_t denormal = bits_of(from_bits(size) + 0.5f) - bits_of(0.5f);  // 0.5's last bit is the least f16
  std::uint32_t special = size > 0x7f800000 ? 0x7e00 : 0x7c00;
  std::uint32_t result = size >= 0x477ff000 ? special : size < 0x38800000 ? denormal : normal;
  return static_cast<std::uint16_t>(sign | result);
}

// ---- 8-bit floats
// -----------------------------------------------------------------------------------------------------

// The exponent moves by 120; denormals as above. 0x7f is NaN.
inline float widen_e4m3(std::uint8_t x) {
  std::uint32_t sign = (x & 0x80u) << 24, rest = (x & 0x7fu) << 20;
  std::uint32_t normal = rest < (0x7fu << 20) ? rest + (120u << 23) : 0x7fc00000;
  std::uint32_t denormal = bits_of(from_bits(rest + (121u << 23)) - from_bits(121u << 23));
  return from_bits(sign | (rest < (1u << 23) ? denormal : normal));
}
inline std::uint8_t narrow_e4m3(float x) {
  std::uint32_t bits = bits_of(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
  std::uint32_t normal = (size - (120u << 23) + 0x7ffff + (size >> 20 & 1)) >> 20;
  std::uint32_t denormal = bits_of(from_bits(size) + 0x1p14f) - bits_of(0x1p14f);  // its last bit is the least number
  std::uint32_t small = size < (121u << 23) ? denormal : normal;
  return static_cast<std::uint8_t>(sign | (size <= 0x43e80000 ? small : 0x7f));  // 464: half way to 480
}
// The upper half of an f16.
inline float widen_e5m2(std::uint8_t x) { return widen_f16(static_cast<std::uint16_t>(x << 8)); }
inline std::uint8_t narrow_e5m2(float x) {
  std::uint32_t bits = bits_of(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
  std::uint32_t normal = (size - (112u << 23) + 0xfffff + (size >> 21 & 1)) >> 21;
  std::uint32_t denormal = bits_of(from_bits(size) + 128.0f) - bits_of(128.0f);  // its last bit is the least number
  std::uint32_t small = size < (113u << 23) ? denormal : normal;
  std::uint32_t special = size > 0x7f800000 ? 0x7f : 0x7c;
  return static_cast<std::uint8_t>(sign | (size < 0x47700000 ? small : special));
}

// The float next to `x` toward zero, with its last bit set where it differs from x: rounding it again to far fewer bits
// gives what rounding x at once would have. A zero is never beyond x, whatever its sign.
inline float odd_float(double x) {
  auto near = static_cast<float>(x);
  double back = near;
  std::uint32_t bits = bits_of(near);
  std::uint32_t beyond = ((back < 0) & (back < x)) | ((back > 0) & (back > x));  // |near| > |x|
  std::uint32_t odd = (bits - beyond) | 1;
  return back == x || back != back ? near : from_bits(odd);
}
inline double odd_double(std::int64_t x) {
  std::int64_t high = x >> 11 << 11;
  return static_cast<double>(x >= -(std::int64_t{1} << 53) && x <= (std::int64_t{1} << 53) ? x
                             : high == x                                                   ? x
                                                                                           : high | 1 << 10);
}

template <class To, class From, class Function>
void each_element(void* result, const VectorOperand* operands, std::int64_t vectors, Function f) {
  auto* to = static_cast<To*>(result);
  const auto* from = static_cast<const From*>(operands[0].data);
  if (operands[0].step == 0) {
    const To one = f(*from);
    for (std::int64_t i = 0; i < vectors * lane_count; ++i) to[i] = one;
    return;
  }
  for (std::int64_t i = 0; i < vectors * lane_count; ++i) to[i] = f(from[i]);
}

}  // namespace

#define WEFT_CAST(from, From, to, To) \
  kernels.cast[static_cast<int>(DType::from)][static_cast<int>(DType::to)] = cast_vectors<To, From>;
#define WEFT_CASTS_FROM(from, From)        \
  WEFT_CAST(from, From, boolean, bool)     \
  WEFT_CAST(from, From, u8, unsigned char) \
  WEFT_CAST(from, From, i32, int)          \
  WEFT_CAST(from, From, i64, long)         \
  WEFT_CAST(from, From, f32, float)        \
  WEFT_CAST(from, From, f64, double)
#define WEFT_CAST_HALF(from, From, to, To, expression)                                        \
  kernels.cast[static_cast<int>(DType::from)][static_cast<int>(DType::to)] =                  \
      [](void* result, const VectorOperand* operands, std::int64_t vectors) {                 \
        each_element<To, From>(result, operands, vectors, [](From x) { return expression; }); \
      };
#define WEFT_CASTS_TO_HALF(half, Half, narrow)                        \
  WEFT_CAST_HALF(f32, float, half, Half, narrow(x))                   \
  WEFT_CAST_HALF(f64, double, half, Half, narrow(odd_float(x)))       \
  WEFT_CAST_HALF(i32, std::int32_t, half, Half, narrow(odd_float(x))) \
  WEFT_CAST_HALF(i64, std::int64_t, half, Half, narrow(odd_float(odd_double(x))))

#define WEFT_PUT_CAST(from, to, function) \
  kernels.cast[static_cast<int>(DType::from)][static_cast<int>(DType::to)] = function;
#define WEFT_CASTS_NARROW(narrow, Narrow, computed, Computed)           \
  WEFT_PUT_CAST(narrow, computed, (cast_from_narrow<Computed, Narrow>)) \
  WEFT_PUT_CAST(i32, narrow, (cast_to_narrow<Narrow, int>))             \
  WEFT_PUT_CAST(i64, narrow, (cast_to_narrow<Narrow, long>))            \
  WEFT_PUT_CAST(f32, narrow, (cast_to_narrow<Narrow, float>))           \
  WEFT_PUT_CAST(f64, narrow, (cast_to_narrow<Narrow, double>))

void put_casts(Kernels& kernels) {
  WEFT_CASTS_FROM(boolean, bool)
  WEFT_CASTS_FROM(u8, unsigned char)
  WEFT_CASTS_FROM(i32, int)
  WEFT_CASTS_FROM(i64, long)
  WEFT_CASTS_FROM(f32, float)
  WEFT_CASTS_FROM(f64, double)
  WEFT_CAST_HALF(f16, std::uint16_t, f32, float, widen_f16(x))
  WEFT_CAST_HALF(bf16, std::uint16_t, f32, float, widen_bf16(x))
  WEFT_CAST_HALF(f8e4m3, std::uint8_t, f32, float, widen_e4m3(x))
  WEFT_CAST_HALF(f8e5m2, std::uint8_t, f32, float, widen_e5m2(x))
  WEFT_CASTS_TO_HALF(f16, std::uint16_t, narrow_f16)
  WEFT_CASTS_TO_HALF(bf16, std::uint16_t, narrow_bf16)
  WEFT_CASTS_TO_HALF(f8e4m3, std::uint8_t, narrow_e4m3)
  WEFT_CASTS_TO_HALF(f8e5m2, std::uint8_t, narrow_e5m2)
  WEFT_CASTS_NARROW(i8, signed char, i32, int)
  WEFT_CASTS_NARROW(i16, short, i32, int)
  WEFT_CASTS_NARROW(u16, unsigned short, i32, int)
  WEFT_CASTS_NARROW(u32, unsigned, i64, long)
  // Sums of them begin as i64.
  WEFT_PUT_CAST(i8, i64, (cast_from_narrow<long, signed char>))
  WEFT_PUT_CAST(i16, i64, (cast_from_narrow<long, short>))
  WEFT_PUT_CAST(u16, i64, (cast_from_narrow<long, unsigned short>))
}

}  // namespace weft::eager::WEFT_ISA_NAMESPACE
