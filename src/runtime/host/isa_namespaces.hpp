// Declarations of what *.isa.cpp files define, once in the namespace of each ISA. On other machines than x86-64 such
// files are compiled once, as the baseline, and in a quick build as this machine's ISA, which then has the other names
// too (cmake/isa_sources.cmake).
#pragma once

#if defined(WEFT_ONLY_ISA_IS_avx512)
#define WEFT_FOR_EACH_ISA(...) \
  namespace avx512 {           \
  __VA_ARGS__                  \
  }                            \
  namespace baseline = avx512; \
  namespace avx2 = avx512;
#elif defined(WEFT_ONLY_ISA_IS_avx2)
#define WEFT_FOR_EACH_ISA(...) \
  namespace avx2 {             \
  __VA_ARGS__                  \
  }                            \
  namespace baseline = avx2;   \
  namespace avx512 = avx2;
#elif defined(__x86_64__) && !defined(WEFT_ONLY_ISA)
#define WEFT_FOR_EACH_ISA(...) \
  namespace baseline {         \
  __VA_ARGS__                  \
  }                            \
  namespace avx2 {             \
  __VA_ARGS__                  \
  }                            \
  namespace avx512 {           \
  __VA_ARGS__                  \
  }
#else
#define WEFT_FOR_EACH_ISA(...) \
  namespace baseline {         \
  __VA_ARGS__                  \
  }                            \
  namespace avx2 = baseline;   \
  namespace avx512 = baseline;
#endif
