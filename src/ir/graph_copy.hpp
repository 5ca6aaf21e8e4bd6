// Copies of a graph's nodes over other values. In: a graph, and a function that gives the results of a node from the
// copies of its operands. Out: the copy of any value of the graph.
#pragma once
#include "ir/builder.hpp"

namespace weft {

class GraphCopy {
 public:
  // `copy(node, operands)` gives all results of a node as a vector. It sees the nodes in the graph's order.
  template <class Copy>
  GraphCopy(const Graph& graph, Copy copy) : graph_(graph) {
    made_.reserve(graph.nodes.size());
    std::vector<Tensor> operands;
    for (const Tensor& value : graph.nodes) {
      operands.clear();
      for (const Tensor& operand : value.node()->inputs()) operands.push_back(of(operand));
      made_.push_back(copy(*value.node(), operands));
    }
  }
  const Tensor& of(const Tensor& value) const { return made_[graph_.number(value)][value.output()]; }
  std::vector<Tensor> of(std::span<const Tensor> values) const {
    std::vector<Tensor> all;
    for (const Tensor& value : values) all.push_back(of(value));
    return all;
  }

 private:
  const Graph& graph_;  // it must live as long
  std::vector<std::vector<Tensor>> made_;
};

}  // namespace weft
