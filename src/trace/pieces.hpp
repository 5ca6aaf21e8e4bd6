// A part of a trace as a graph of its own. In: what it is to compute, and the values that are known when it runs. Out:
// a graph over inputs of the trace and known values.
#pragma once
#include <unordered_map>

#include "record/record.hpp"
#include "trace/specialization.hpp"

namespace weft::detail {

using PlacesByHandle = std::unordered_map<std::uint64_t, std::uint32_t>;  // in a list

// With where its inputs come from: the trace's, by slot; the generator's state; or what was known, by its place in the
// list that it was cut at.
struct Piece {
  Graph graph;
  std::vector<std::uint32_t> inputs;
};
// Copies what the roots and the effects need, and stops at inputs and at what is known.
Piece cut_piece(const Trace& trace, std::vector<Tensor> roots, std::span<const Tensor> effects,
                const PlacesByHandle& known);

}  // namespace weft::detail
