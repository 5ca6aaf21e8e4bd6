// Vector-Jacobian rules: one a primitive, expanded from weft/ops.def. In: a node whose outputs have gradients. Out: the
// gradients of its operands, recorded as ordinary values, so that they are differentiable again. Invariant: a gradient
// has exactly the type of the value that it belongs to. A primitive without a rule does not compile.
#pragma once
#include "ir/graph.hpp"

namespace weft {

// What a rule is given, and where it puts its results. Undefined means zero in both.
struct Pullback {
  Tensor value;                           // output 0 of the node
  std::span<const Tensor> gradients;      // of the node's outputs
  std::span<const unsigned char> wanted;  // operands whose gradient is needed: the others get no work
  std::span<Tensor> results;              // of the node's operands

  const Node& node() const { return *value.node(); }
  const Tensor& gradient() const { return gradients[0]; }
  const Tensor& operand(std::size_t i) const { return node().operands[i]; }
};

using Rule = void (*)(const Pullback&);
Rule vector_jacobian_rule(Op op);

}  // namespace weft
