// What is known of a kernel before its loops are chosen: on which axes each instruction depends, how it moves along the
// lanes, and what each walk over the inner axes computes, reads back or keeps. In: a kernel. Out: plain facts; the
// loops (loop/nest.hpp) follow from them, on every target.
#pragma once
#include <cstdint>
#include <vector>

#include "loop/kernel.hpp"

namespace weft::loop {

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
  bool last = false;       // computed after the carried axes: the result of a reduction over them, and what reads it
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
  std::vector<int> carried;              // axes that one unit walks in order
  int narrow = -1;                       // the axis of narrow columns
  std::vector<int> inner;                // inner axes without the vector axis
  int phases = 0;                        // walks over the inner axes
  std::vector<std::vector<Step>> walks;  // by phase, operands first
  std::vector<int> kept;                 // instructions that have a row buffer
};

// Which values may be kept from the walk that has them first for later ones: of rows with at most so many inner
// elements, at most so many at a time.
struct KeepLimits {
  enum class What : std::uint8_t {
    values,
    values_and_loads,
    packs
  } what = What::values;  // packs: contiguous loads alone
  std::int64_t elements = 4096;
  int buffers = 4;
  bool symbolic = false;  // rows whose length is symbolic as well: the loops then serve rows of so many elements alone
  bool reloads = true;    // what a walk has stored is read back from there, and not kept
};
Analysis analyze(const Kernel& kernel, const KeepLimits& limits = {});

// The instructions whose results an index reads.
std::vector<int> values_in(Dim index);
// Marks, by instruction, what this one reads: its operands, and what its index reads.
void mark_read(const Instruction& instruction, std::vector<bool>& read);

// How an index moves along the lanes.
struct Access {
  enum class Kind { uniform, contiguous, strided, general } kind = Kind::uniform;
  Dim stride = 0;  // of the lanes
  Dim rest = 0;    // the index of lane 0 at the vector axis's 0; general: the whole index
};
Access access(const Kernel& kernel, const Analysis& analysis, Dim index);
// Whether an atom of an index differs from lane to lane.
bool differs(const Kernel& kernel, const Analysis& analysis, const DimNode& atom);

// The number of points of some of the kernel's axes.
Dim extent_of(const Kernel& kernel, const std::vector<int>& axes);
inline Dim divide_up(Dim count, std::int64_t by) { return (count + Dim(by - 1)) / Dim(by); }

}  // namespace weft::loop
