// The derivative of a graph that a call has computed, as another graph. In: the graph, and which gradients or tangents
// are asked for. Out: a graph that reads operands, results and what is given of the call, to be compiled; what it reads
// of the values inside, to choose what the call saves. It computes nothing that the results of the call are.
#pragma once
#include "ir/partition.hpp"
#include "trace/specialization.hpp"

namespace weft::detail {

// Which derivative of a call is asked for: gradients of operands, from those of results; or tangents of results, from
// those of operands.
struct AskedDerivative {
  bool forward;                           // tangents
  std::span<const unsigned char> wanted;  // by operand; of tangents, by result
  std::span<const unsigned char> given;   // by result; of tangents, by operand
};

struct DerivedGraph {
  TraceResult traced = {};                    // its inputs are kept values: those of `reads`, in this order
  std::vector<std::uint32_t> reads = {};      // places among the operands, then the results, then what is given
  std::vector<DimCondition> conditions = {};  // decided on sizes while it was made
  struct Gradient {
    std::size_t place, result;  // of an operand, or of a result whose tangent it is; of rows that is their index, and
                                // the next result is the rows
    bool is_rows;
  };
  std::vector<Gradient> gradients = {};  // none: all are zero
};
// `symbols`: the sizes of the call. Throws Error where an operation has no such derivative.
DerivedGraph derived(const Graph& graph, const AskedDerivative& asked, std::span<const std::int64_t> symbols, Loc loc);

// What such a derivative reads of the graph's values.
ForwardReads reads_of_derivative(const Graph& graph, const AskedDerivative& asked,
                                 std::span<const std::int64_t> symbols, Loc loc);

}  // namespace weft::detail
