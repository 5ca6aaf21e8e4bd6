// One stage of a Fourier transform (Stockham's ordering of the FFT), compiled once an ISA. In: a row of complex numbers
// as two planes, seen as [radix, length / radix, stride]. Out: the row [length / radix, radix, stride], whose entries
// are the transforms over the first axis, turned by their twiddle factors: what the next stage sees as `radix` times
// the stride. Every ISA gives the same bits.
#pragma once
#include <cstdint>

#include "runtime/host/isa_namespaces.hpp"

namespace weft::runtime {

struct FourierStage {
  std::int64_t radix, length, stride;
  std::int64_t twiddles;  // of the tables of the plan: where this stage's begin, [radix - 1, length / radix]
  std::int64_t roots;     // ... and the radix's own roots of unity; radices other than 2, 3, 4, 5 and 8 read them
};

// Two planes of T. The results are other memory.
template <class T>
struct FourierPlanes {
  T *real, *imag;
};

WEFT_FOR_EACH_ISA(void fourier_stage(const FourierStage& stage, FourierPlanes<const float> tables,
                                     FourierPlanes<const float> from, FourierPlanes<float> to);
                  void fourier_stage(const FourierStage& stage, FourierPlanes<const double> tables,
                                     FourierPlanes<const double> from, FourierPlanes<double> to);)

}  // namespace weft::runtime
