// Layouts of what a plan writes. In: an optimized graph. Out: for each value, where its elements lie if it gets memory:
// contiguous, dense in another order of axes (for the product that alone reads it so; a result of a call, or a
// concatenation, as all of its readers permute it; images with their channels last), or strided, a window in the memory
// of the concatenation that alone reads it. Chosen before fusion, which asks whether a product must copy. Results are
// contiguous: they are what callers read.
#pragma once
#include "schedule/index_map.hpp"
#include "schedule/provider.hpp"

namespace weft {

struct BufferLayout {
  std::vector<Dim> strides;    // in elements, one for each axis; none: contiguous
  Dim offset = 0;              // of the first element
  int window_of = -1;          // the node (an index) in whose buffer it lies; -1: one of its own
  bool channels_last = false;  // of images: the strides say so
  bool assembled = false;      // a concatenation whose parts fill its memory; else it is a formula, as a pad is

  bool is_contiguous() const { return strides.empty(); }
};

std::vector<BufferLayout> choose_layouts(const Graph& graph, const Providers& providers, Device device);

// Of an element in the buffer of a node: as its layout says, as the eager layout of a computed value does, or row by
// row.
Dim memory_index(const Node& node, const BufferLayout& layout, const IndexVector& index);

// Row by row.
std::vector<Dim> contiguous_strides(const Shape& shape);

}  // namespace weft
