// Reductions in stages. Runs on a kernel whose axes are final, before its loops are made. In: a kernel whose
// reductions are cut at their chunks (loop/nest.hpp). Out: kernels that fold the chunks, each chunk a unit of its own,
// and one that joins their results in order; where the rows are walked again after that, these two for each walk, which
// read the joined results from memory, and a kernel of independent points for the last. The roundings are those of the
// whole reduction: the order of additions is a function of the shape alone (include/weft/detail/reduce.inc).
//
// A long reduction to few elements is cut so that there is work for every thread. Reductions over the rows of a kernel
// that reduces each row as well (the backward pass of a norm) are cut so that one pass over memory serves both: a unit
// walks the rows of a chunk in order and holds its columns.
//
// A scan is cut as the total of each chunk, a scan of these, and a scan of each chunk that starts from what is before
// it. A position is cut as the greatest element of each chunk and where that is: the join finds the first of the
// greatest. An online sum is cut as the sum of each chunk, of exponentials relative to the chunk's greatest element.
#pragma once
#include "loop/kernel.hpp"

namespace weft::loop {

struct Stages {
  struct Partial {
    DType dtype;
    Dim elements;
  };
  std::vector<Kernel> kernels;    // in the order in which they run
  std::vector<Partial> partials;  // memory between them: number i is the kernels' buffer with value partial(i)
};
// A buffer whose memory the caller is to give.
inline constexpr std::int32_t partial(std::size_t i) { return -2 - static_cast<std::int32_t>(i); }

// Whether the reductions and scans over all inner axes can be cut: there is one inner axis.
bool can_cut(const Kernel& kernel);
// Whether reductions over several inner axes, with lanes along the last one, can be cut along the first: rows of runs.
bool can_cut_runs(const Kernel& kernel);
// Nothing walks the inner axes again after a reduction.
bool walks_once(const Kernel& kernel);
// The reductions and scans over the inner axis, in chunks; over several, in chunks of the first one.
Stages cut_reductions(const Kernel& kernel, std::int64_t chunk);
// The reductions over the rows (ReductionKind::over_carried), `chunk` rows a unit.
Stages cut_columns(const Kernel& kernel, std::int64_t chunk);

}  // namespace weft::loop
