// Reductions of rows or columns that are cut (stages.hpp): the memory of their chunks' results, and the kernel that
// joins these in order. In: a kernel whose reductions are cut. Out: what its stages have in their place.
#pragma once
#include "loop/stages.hpp"

namespace weft::loop {

// A reduction that is cut, and its memory: of a position, the greatest element comes first, then where it is.
struct CutReduction {
  int instruction;
  std::size_t memory;  // number of the first partial
};
std::vector<CutReduction> give_memory(const Kernel& kernel, const std::vector<int>& reductions, Dim elements,
                                      Stages& stages);
// Stores what the reductions give into their partial memory; what else is stored is what `stored` says of the
// original's instructions.
void store_partials(Kernel& kernel, const std::vector<CutReduction>& reductions, const std::vector<bool>& stored,
                    const Stages& stages, Dim place);

// Where the partial results of a point lie, and how long a row was before it was cut.
struct JoinedParts {
  Dim place, length;
};
// The results themselves are stored as well, at `place`, into the memory that begins with number `first`, where that is
// not negative.
struct JoinedResults {
  Dim place = 0;
  int first = -1;
};
// In place of the reductions: the partial results, joined over the last axis, the chunks. Of what else is stored it
// stores what `stored` says of the kernel's instructions.
Kernel joined(const Kernel& kernel, const std::vector<CutReduction>& reductions, const Stages& stages,
              const JoinedParts& parts, const std::vector<bool>& stored, const JoinedResults& results = {});

}  // namespace weft::loop
