// The CPU's floating-point modes, held at their defaults while Weft computes: rounding to nearest, subnormals kept. A
// caller's own modes hold for one of the threads alone, so a result would depend on the number of threads, and what is
// folded at compile time on the mode of that moment. They are put back on leaving.
#pragma once
#include <cfenv>
#include <cstdint>

namespace weft {

class DefaultFloatModes {
 public:
#if defined(__x86_64__)
  DefaultFloatModes() : before_(__builtin_ia32_stmxcsr()), long_double_before_(long_double_modes()) {
    if ((before_ & modes) != defaults) [[unlikely]]
      __builtin_ia32_ldmxcsr((before_ & ~modes) | defaults);
    if (long_double_before_ != long_double_defaults) [[unlikely]] {
      __asm__ volatile("fldcw %0" : : "m"(long_double_defaults));
    }
  }
  ~DefaultFloatModes() {
    if ((before_ & modes) != defaults) [[unlikely]]
      __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~modes) | (before_ & modes));
    if (long_double_before_ != long_double_defaults) [[unlikely]] {
      __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(long_double_before_));  // a flag that stood might trap now
    }
  }

 private:
  // Long doubles, in which folded constants are rounded, have modes of their own.
  static std::uint16_t long_double_modes() {
    std::uint16_t word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
  }

  static constexpr unsigned modes = 0xffc0, defaults = 0x1f80;  // flush to zero, rounding, masks, denormals are zeros
  static constexpr std::uint16_t long_double_defaults = 0x037f;
  unsigned before_;
  std::uint16_t long_double_before_;
#else
  DefaultFloatModes() : before_(std::fegetround()) { std::fesetround(FE_TONEAREST); }
  ~DefaultFloatModes() { std::fesetround(before_); }

 private:
  int before_;
#endif
 public:
  DefaultFloatModes(const DefaultFloatModes&) = delete;
  DefaultFloatModes& operator=(const DefaultFloatModes&) = delete;
};

}  // namespace weft
