// The functions over lanes, compiled once for each ISA, as plain functions over arrays that the tests call. In: arrays
// of any length (the last lanes go through load_n and store_n). Out: the same, by element.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/host/isa_namespaces.hpp"

namespace lanes_test {

template <class To, class... From>
struct Function {
  const char* name;
  void (*apply)(To* to, const From*... from, long count);
};

// A null name ends each list.
struct Functions {
  const Function<float, float>* f32_unary;
  const Function<double, double>* f64_unary;
  const Function<float, float, float>* f32_binary;
  const Function<double, double, double>* f64_binary;
  const Function<int, int, int>* i32_binary;
  const Function<long, long, long>* i64_binary;
  const Function<std::uint8_t, std::uint8_t, std::uint8_t>* u8_binary;
  // Comparisons and select on each type at once: bit 0 a == b, 1 a < b, 2 a <= b, 3 a != b, 4 a > b, 5 a >= b.
  void (*compare_f32)(std::uint8_t*, const float*, const float*, long);
  void (*compare_f64)(std::uint8_t*, const double*, const double*, long);
  void (*compare_i32)(std::uint8_t*, const int*, const int*, long);
  void (*compare_i64)(std::uint8_t*, const long*, const long*, long);
  void (*compare_u8)(std::uint8_t*, const std::uint8_t*, const std::uint8_t*, long);
  // Masks of different sizes together: (a < b) of floats and (c < d) of doubles, or and xor and not; select by it.
  void (*mixed_masks)(double* to, const float* a, const float* b, const double* c, const double* d, long count);
  // convert: every pair of types, `from` and `to` by the letters f d i l u b (bool).
  void (*convert)(char from, char to, const void* source, void* target, long count);
  // 16-bit floats as bits; count a multiple of 16 where they are read.
  void (*widen_bf16)(float*, const std::uint16_t*, long);
  void (*narrow_bf16)(std::uint16_t*, const float*, long);
  void (*widen_f16)(float*, const std::uint16_t*, long);
  void (*narrow_f16)(std::uint16_t*, const float*, long);
  // Sum, product, minimum and maximum of the first n <= 16 elements.
  void (*reduce_f32)(float to[4], const float* from, long n);
  void (*reduce_f64)(double to[4], const double* from, long n);
  void (*reduce_i64)(long to[4], const long* from, long n);
  void (*any_all)(bool to[2], const bool* from, long n);
  // load_strided, store_strided, gather, scatter of n elements: to[i * stride] = from[i * stride]; to[at] = from[at].
  void (*strided)(double* to, const double* from, long stride, long n);
  void (*indexed)(double* to, const double* from, const long* at, long n);
  // random_bits of elements first .. first + 15, as a run and by indices.
  void (*random_run)(long* to, long seed, long offset, long first);
  void (*random_at)(long* to, long seed, long offset, const long* at);
};

WEFT_FOR_EACH_ISA(extern const Functions functions;)

// The ISAs that this machine runs.
struct Isa {
  std::string name;
  const Functions* functions;
  bool has_fma;
};
inline int supported(Isa (&isas)[3]) {
  int count = 0;
  isas[count++] = {"baseline", &baseline::functions, false};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isas[count++] = {"avx2", &avx2::functions, true};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    isas[count++] = {"avx512", &avx512::functions, true};
#endif
  return count;
}

}  // namespace lanes_test
