// What the cases of processes.cpp and sharded.cpp share: checks that name the rank, and the device on which all is
// done.
#pragma once
#include <cstdio>

#include "weft/distributed.hpp"
#include "weft/weft.hpp"

namespace test {

inline int failures = 0;
inline weft::Device device = weft::Device::cpu();

inline void expect(bool holds, const char* what, int line) {
  if (holds) return;
  std::fprintf(stderr, "rank %d, line %d: %s\n", weft::distributed::rank(), line, what);
  ++failures;
}

inline weft::Tensor on_device(const weft::Tensor& x) { return weft::to(x, device); }
inline double number(const weft::Tensor& x) { return weft::cast(x, weft::DType::f64).item<double>(); }
inline bool near(const weft::Tensor& a, const weft::Tensor& b, double rtol = 1e-6, double atol = 1e-7) {
  using weft::DType;
  return allclose(cast(a, DType::f64), cast(b, DType::f64), {.rtol = rtol, .atol = atol}).item<bool>();
}
inline bool equal(const weft::Tensor& a, const weft::Tensor& b) {
  return all(cast(a, weft::DType::f64) == cast(b, weft::DType::f64)).item<bool>();
}
// This process was told of what is wrong, and says so.
inline int told(const char* by) {
  std::printf("rank %d was told: %s\n", weft::distributed::rank(), by);
  std::fflush(stdout);
  return 0;
}

// sharded.cpp
void sharding();          // parts, gathers and their derivatives
void sharded_training();  // against one process with the whole batch
void sharded_dtype();     // sent in bf16
void sharded_plan();      // gathers in a plan, and its memory
void sharded_files();     // saved whole, loaded into parts
void sharded_refusals();
int sharded_difference();

}  // namespace test

#define EXPECT(...) ::test::expect((__VA_ARGS__), #__VA_ARGS__, __LINE__)
