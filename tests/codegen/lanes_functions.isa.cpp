#include "tests/codegen/lanes_functions.hpp"

#include "weft/detail/lanes.hpp"

// What only generated code pastes.
namespace weft::lanes {
inline namespace WEFT_ISA_NAMESPACE {
#define WEFT_INLINE inline
#include "weft/detail/lanes_half.inc"
#undef WEFT_INLINE
}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::lanes

namespace lanes_test::WEFT_ISA_NAMESPACE {
namespace {

using namespace weft::lanes;
// f is written once, for whole vectors and the rest.
template <class T>
auto load_up_to(const T* from, long n) {
  return n < lane_count ? load_n(from, n) : load(from);
}
template <class F, class To, class... From>
void apply(F f, long count, To* to, const From*... from) {
  for (long i = 0; i < count; i += lane_count) {
    const auto result = f(load_up_to(from + i, count - i)...);
    if (count - i < lane_count)
      store_n(to + i, result, count - i);
    else
      store(to + i, result);
  }
}

// clang-format off
#define UNARY(T, name)                                                             \
  Function<T, T> {                                                                 \
    #name, [](T* to, const T* from, long count) {                                  \
      apply([](auto x) { return name(x); }, count, to, from);                      \
    }                                                                              \
  }
#define BINARY(T, name, expression)                                                \
  Function<T, T, T> {                                                              \
    name, [](T* to, const T* left, const T* right, long count) {                   \
      apply([](auto a, [[maybe_unused]] auto b) -> lanes<T> { return expression; }, count, to, left, right); \
    }                                                                              \
  }
#define UNARIES(T)                                                                                              \
  {UNARY(T, exp), UNARY(T, expm1), UNARY(T, log), UNARY(T, log1p), UNARY(T, tanh), UNARY(T, sigmoid),           \
   UNARY(T, erf), UNARY(T, sin), UNARY(T, cos), UNARY(T, exp2), UNARY(T, log2), UNARY(T, log10), UNARY(T, tan), UNARY(T, asin),        \
   UNARY(T, acos), UNARY(T, atan), UNARY(T, sinh), UNARY(T, cosh), UNARY(T, asinh), UNARY(T, acosh),           \
   UNARY(T, atanh), UNARY(T, erfc), UNARY(T, erfinv), UNARY(T, lgamma), UNARY(T, digamma), UNARY(T, sqrt), UNARY(T, rsqrt), UNARY(T, reciprocal),          \
   UNARY(T, floor), UNARY(T, ceil), UNARY(T, round), UNARY(T, trunc), UNARY(T, abs), UNARY(T, sign),            \
   UNARY(T, relu), {nullptr, nullptr}}
#define SHARED_BINARIES(T)                                                                                      \
  BINARY(T, "add", a + b), BINARY(T, "sub", a - b), BINARY(T, "mul", a * b), BINARY(T, "minimum", minimum(a, b)), \
      BINARY(T, "maximum", maximum(a, b)), BINARY(T, "floor_divide", floor_divide(a, b)),                       \
      BINARY(T, "remainder", remainder(a, b)), BINARY(T, "pow", pow(a, b))
#define FLOAT_BINARIES(T)                                                                                       \
  {SHARED_BINARIES(T), BINARY(T, "div", a / b), BINARY(T, "copysign", copysign(a, b)),                          \
   BINARY(T, "fma", fma(a, b, T(1))), BINARY(T, "clamp", clamp(a, T(-1), T(1)) + b - b), {nullptr, nullptr}}
#define INTEGER_BINARIES(T)                                                                                     \
  {SHARED_BINARIES(T), BINARY(T, "and", a & b), BINARY(T, "or", a | b), BINARY(T, "xor", a ^ b),                \
   BINARY(T, "not", ~a), BINARY(T, "neg", -a), BINARY(T, "abs", abs(a)), BINARY(T, "sign", sign(a)),            \
   {nullptr, nullptr}}
// clang-format on

const Function<float, float> f32_unary[] = UNARIES(float);
const Function<double, double> f64_unary[] = UNARIES(double);
const Function<float, float, float> f32_binary[] = FLOAT_BINARIES(float);
const Function<double, double, double> f64_binary[] = FLOAT_BINARIES(double);
const Function<int, int, int> i32_binary[] = INTEGER_BINARIES(int);
const Function<long, long, long> i64_binary[] = INTEGER_BINARIES(long);
const Function<uint8, uint8, uint8> u8_binary[] = INTEGER_BINARIES(uint8);

template <class T>
void compare(uint8* to, const T* left, const T* right, long count) {
  const auto bit = [](auto m, int n) { return convert<uint8>(m) << n; };
  apply(
      [&](auto a, auto b) {
        return bit(a == b, 0) | bit(a < b, 1) | bit(a <= b, 2) | bit(a != b, 3) | bit(a > b, 4) | bit(a >= b, 5);
      },
      count, to, left, right);
}

void mixed_masks(double* to, const float* a, const float* b, const double* c, const double* d, long count) {
  apply(
      [](auto a, auto b, auto c, auto d) {
        const auto m = (a < b) | (c < d);
        const auto n = (c < d) ^ (a < b);
        return select(m & ~n, c, select(n, d, convert<double>(m == (a < b))));
      },
      count, to, a, b, c, d);
}

template <class To, class From>
void convert_array(const void* source, void* target, long count) {
  apply([](auto x) { return convert<To>(x); }, count, static_cast<To*>(target), static_cast<const From*>(source));
}
template <class From>
void convert_from(char to, const void* source, void* target, long count) {
  switch (to) {
    case 'f': return convert_array<float, From>(source, target, count);
    case 'd': return convert_array<double, From>(source, target, count);
    case 'i': return convert_array<int, From>(source, target, count);
    case 'l': return convert_array<long, From>(source, target, count);
    case 'u': return convert_array<uint8, From>(source, target, count);
    case 'b': return convert_array<bool, From>(source, target, count);
  }
}
void convert_any(char from, char to, const void* source, void* target, long count) {
  switch (from) {
    case 'f': return convert_from<float>(to, source, target, count);
    case 'd': return convert_from<double>(to, source, target, count);
    case 'i': return convert_from<int>(to, source, target, count);
    case 'l': return convert_from<long>(to, source, target, count);
    case 'u': return convert_from<uint8>(to, source, target, count);
    case 'b': return convert_from<bool>(to, source, target, count);
  }
}

long at_most_lanes(long n) { return n < lane_count ? n : lane_count; }
template <class Half>
void widen_array(float* to, const std::uint16_t* from, long count) {
  for (long i = 0; i < count; i += lane_count) store(to + i, load(reinterpret_cast<const Half*>(from + i)));
}
template <class Half>
void narrow_array(std::uint16_t* to, const float* from, long count) {
  for (long i = 0; i < count; i += lane_count) {
    const long n = at_most_lanes(count - i);
    store_n(reinterpret_cast<Half*>(to + i), load_n(from + i, n), n);
  }
}

template <class T>
void reduce(T to[4], const T* from, long n) {
  const auto x = load_n(from, n);
  if (n == lane_count) {
    to[0] = reduce_add(x), to[1] = reduce_mul(x), to[2] = reduce_min(x), to[3] = reduce_max(x);
  } else {
    to[0] = reduce_add(x, n), to[1] = reduce_mul(x, n), to[2] = reduce_min(x, n), to[3] = reduce_max(x, n);
  }
}

}  // namespace

extern const Functions functions;
const Functions functions = {
    f32_unary,
    f64_unary,
    f32_binary,
    f64_binary,
    i32_binary,
    i64_binary,
    u8_binary,
    compare<float>,
    compare<double>,
    compare<int>,
    compare<long>,
    compare<uint8>,
    mixed_masks,
    convert_any,
    widen_array<bfloat16>,
    narrow_array<bfloat16>,
    widen_array<float16>,
    narrow_array<float16>,
    reduce<float>,
    reduce<double>,
    reduce<long>,
    [](bool to[2], const bool* from, long n) {
      const auto m = load_n(from, n);
      to[0] = any(m, n), to[1] = all(m, n);
    },
    [](double* to, const double* from, long stride, long n) {
      store_strided(to, stride, load_strided(from, stride, n), n);
    },
    [](double* to, const double* from, const long* at, long n) {
      const auto index = load_n(at, n);
      scatter(to, index, gather(from, index, n), n);
    },
    [](long* to, long seed, long offset, long first) { store(to, random_bits(seed, offset, first)); },
    [](long* to, long seed, long offset, const long* at) { store(to, random_bits(seed, offset, load(at))); },
};

}  // namespace lanes_test::WEFT_ISA_NAMESPACE
