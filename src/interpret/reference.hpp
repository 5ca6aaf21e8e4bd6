// The reference interpreter: what a graph means, said naively. In: a graph, the values of its inputs, the numbers of
// its size symbols. Out: the values of its outputs. Every node is computed in float64 (integers exactly) and then
// rounded to its dtype, so the other executors are held against it within bounds that follow from their own roundings.
// Shares no formula with the vector spelling of the table, no kernel and no index arithmetic with the other executors.
#pragma once
#include <optional>

#include "ir/dtype.hpp"
#include "ir/graph.hpp"

namespace weft {

// A value of constant shape, row-major. Floating dtypes fill `reals`, integers and bool `integers`.
struct Literal {
  Type type;
  std::vector<double> reals = {};
  std::vector<std::int64_t> integers = {};
};

// Moves every inexact result by `roundings` roundings of its dtype, up or down at random: how far the outputs then move
// is how far another order of operations may move them (Monte Carlo arithmetic). The bound that tests hold executors
// to.
struct Perturbation {
  std::uint64_t state = 1;  // any number but 0
  double roundings = 2;
};

// Throws the user's Error where a check fails or an index is out of range.
std::vector<Literal> interpret(const Graph& graph, std::span<const Literal> inputs,
                               std::span<const std::int64_t> symbols, Perturbation* perturbation = nullptr);

// The constant that a pointwise primitive or a cast makes of 0-d constants. Empty where an
// operand is not a constant number, or the primitive is another kind.
std::optional<Constant> fold(Op op, const Type& result, std::span<const Tensor> operands);

}  // namespace weft
