// Searches that go into bodies.
#pragma once
#include <algorithm>

#include "ir/graph.hpp"

namespace weft {

template <class Predicate>
bool any_inner_node(const Node& node, const Predicate& is_such);

// Whether `is_such` holds of a node of the graph, or of one in a body that a node of it holds, however deep.
template <class Predicate>
bool any_node(const Graph& graph, const Predicate& is_such) {
  return std::ranges::any_of(graph.nodes, [&](const Tensor& value) {
    const Node& node = *value.node();
    return is_such(node) || any_inner_node(node, is_such);
  });
}
// Whether it holds of a node in a body of this one.
template <class Predicate>
bool any_inner_node(const Node& node, const Predicate& is_such) {
  return std::ranges::any_of(node.bodies(), [&](const auto& body) { return any_node(*body, is_such); });
}

}  // namespace weft
