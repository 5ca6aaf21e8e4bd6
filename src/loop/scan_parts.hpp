// Scans of rows that are cut (stages.hpp): the total of each chunk, a scan of these totals, and the scan of each chunk
// from what is before it. In: a kernel whose scans are cut. Out: what its stages have in their place.
//
// Totals are of the type in which a scan adds up: f64 for sums, products and logarithms of sums of floats, i64 for
// integers. How they are joined follows from the shape alone, so each run gives the same bits.
#pragma once
#include "loop/stages.hpp"

namespace weft::loop {

// A scan that is cut, and its memory: the totals of chunks, then what is before each chunk. Both lie by rows.
struct CutScan {
  int instruction;
  std::size_t totals, starts;  // numbers of partials
};

inline bool is_cut(const Instruction& it) { return it.kind == Kind::scan && it.args[1] >= 0; }

CutScan give_memory(const Kernel& kernel, int scan, Dim elements, Stages& stages);
// Adds the total of the scan's operand over the inner axes; the number of its instruction.
std::size_t add_total(Kernel& kernel, const CutScan& scan, const Stages& stages);
// The starts of the chunks: a kernel over the rows, which walks the totals of each in order.
Kernel kernel_of_starts(const Kernel& kernel, const std::vector<CutScan>& scans, Dim rows, Dim chunks,
                        const Stages& stages);
// The scan begins with what lies at `place` of the starts. Later instructions have numbers that are one higher.
void begin_with_start(Kernel& kernel, const CutScan& scan, Dim place, const Stages& stages);

}  // namespace weft::loop
