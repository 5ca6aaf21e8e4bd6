// A graph made anew of another: over the same symbols, under the same conditions. In: its values. Out: the graph.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace weft {

inline Graph remade(const Graph& graph, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                    std::vector<Tensor> effects) {
  Graph made = make_graph(std::move(inputs), std::move(outputs), std::move(effects));
  made.symbols = graph.symbols;
  made.conditions = graph.conditions;
  return made;
}

// With `map(value)` in the place of each input, output and effect.
template <class Map>
Graph remade(const Graph& graph, const Map& map) {
  const auto all = [&](std::span<const Tensor> values) {
    std::vector<Tensor> made;
    for (const Tensor& value : values) made.push_back(map(value));
    return made;
  };
  return remade(graph, all(graph.inputs), all(graph.outputs), all(graph.effects));
}

}  // namespace weft
