// What the C++ generator decides before it writes: on which loops each instruction depends, and what each walk over the
// inner axes computes, reads back or keeps. In: a kernel. Out: plain facts; the text follows from them.
#pragma once
#include <vector>

#include "schedule/loop.hpp"

namespace weft::codegen {

enum class Form {
  pointwise,  // no inner axis: a loop over the vector axis, if there is one
  rows,       // the vector axis is the last inner axis; values after a reduction are uniform
  columns,    // the vector axis is outer; reductions stay on their lanes
};

struct Facts {
  std::uint32_t axes = 0;  // bit a: the value depends on axis a
  int phase = 0;           // reductions that must be complete before
  bool inner = false;      // depends on an inner axis
  bool vector = false;     // differs from lane to lane
};

// One instruction of a walk over the inner axes.
struct Step {
  enum class How {
    compute,
    keep,    // compute, and store in the row buffer for later walks
    recall,  // load from the row buffer
    reload,  // load from the output where store `from` has put it in an earlier walk
  } how = How::compute;
  int instruction = 0;
  int from = -1;
};

struct Analysis {
  Form form = Form::pointwise;
  bool single_pass = false;              // columns: the rows are few, so 16 columns at a time are walked to the end
  std::vector<Facts> facts;              // by instruction
  std::vector<int> outer;                // outer axes without the vector axis
  std::vector<int> inner;                // inner axes without the vector axis
  int phases = 0;                        // walks over the inner axes
  std::vector<std::vector<Step>> walks;  // by phase, operands first
  std::vector<int> kept;                 // instructions that have a row buffer
};

// Which values may have row buffers: of rows with at most so many inner elements, at most so many at a time. Loads too,
// where reading memory again costs more than keeping it.
struct KeepLimits {
  std::int64_t elements = 4096;
  int buffers = 4;
  bool loads = false;
};
Analysis analyze(const loop::Kernel& kernel, const KeepLimits& limits = {});

// The instructions whose results an index reads.
std::vector<int> values_in(Dim index);

}  // namespace weft::codegen
