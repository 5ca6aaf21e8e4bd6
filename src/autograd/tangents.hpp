// Tangent rules: one a primitive, expanded from weft/ops.def. In: a node and the tangents of its operands. Out: the
// tangents of its results, recorded as ordinary values. Invariant: a tangent has exactly the type of the value that it
// belongs to. A primitive without a rule does not compile.
#pragma once
#include "ir/graph.hpp"

namespace weft {

// What a rule is given, and where it puts its results. Undefined means zero in both; one tangent at least is defined.
struct Pushforward {
  Tensor value;                           // output 0 of the node
  std::span<const Tensor> tangents;       // of the node's operands
  std::span<Tensor> results;              // of the node's outputs
  std::span<const unsigned char> wanted;  // by output: whether somebody reads its tangent

  const Node& node() const { return *value.node(); }
  const Tensor& operand(std::size_t i) const { return node().operands[i]; }
};

using TangentRule = void (*)(const Pushforward&);
TangentRule tangent_rule(Op op);

// By the node's vector-Jacobian rule alone, transposed: the gradients of the operands are a linear function of those of
// the results, and the gradient of that function at the tangents is the tangent of the results.
void transpose_twice(const Pushforward& p);

}  // namespace weft
