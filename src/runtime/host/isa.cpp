#include "runtime/host/isa.hpp"

#include <iterator>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"

namespace weft {

namespace {

struct Row {
  std::string_view name;
  std::string_view march;
};
constexpr Row rows[] = {{"baseline", "-march=x86-64"}, {"avx2", "-march=x86-64-v3"}, {"avx512", "-march=x86-64-v4"}};

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#if defined(__clang__) && __clang_major__ < 18  // knows features, but not levels
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
#else
  const bool avx2 = __builtin_cpu_supports("x86-64-v3");
  const bool avx512 = __builtin_cpu_supports("x86-64-v4");
#endif
  const Isa widest = avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::baseline;
#if defined(WEFT_ONLY_ISA)
  if (widest < Isa::WEFT_ONLY_ISA)
    fail("weft", {}, "this library was built with WEFT_QUICK_BUILD for ",
         rows[static_cast<int>(Isa::WEFT_ONLY_ISA)].name, ", and this CPU has no more than ",
         rows[static_cast<int>(widest)].name, ": build it here");
#endif
  return widest;
#else
  return Isa::baseline;
#endif
}

}  // namespace

Isa host_isa() {
  static constinit Lazy<const Isa> detected;
  const Isa widest = detected.get(detect);
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    if (options().isa == rows[i].name && static_cast<Isa>(i) < widest) return static_cast<Isa>(i);
  }
  return widest;
}

std::string_view name(Isa isa) { return rows[static_cast<int>(isa)].name; }

std::string_view march_flag([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  return rows[static_cast<int>(isa)].march;
#else
  return {};
#endif
}

}  // namespace weft
