// Declarations of what *.isa.cpp files define, once in the namespace of each ISA. On other machines than x86-64 such
// files are compiled once, as the baseline, which then has the other names too.
#pragma once

#if defined(__x86_64__)
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
