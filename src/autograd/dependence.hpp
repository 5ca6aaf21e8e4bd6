// Which results of a node depend on which of its operands, through floating values. In: a node, or a graph. Out: an
// answer for each result and operand. What it says has no dependence has no gradient and no tangent.
#pragma once
#include "ir/graph.hpp"

namespace weft {

struct ComputedCallee;

class NodeDependence {
 public:
  explicit NodeDependence(const Node& node);
  // Of results that a body gives one by one; others depend on every operand.
  bool operator()(unsigned result, std::size_t operand) const;

 private:
  const ComputedCallee* computed_;
  bool none_;
  std::vector<std::vector<bool>> table_;  // by result, by operand
};

// By output of a graph, by input.
std::vector<std::vector<bool>> dependences(const Graph& graph);

}  // namespace weft
