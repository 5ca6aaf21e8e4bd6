// What an exported graph is made of (weft/export.hpp).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trace/registry.hpp"
#include "weft/export.hpp"

namespace weft::detail {

struct ExportedData {
  GraphView view;
  std::vector<GraphPort> inputs, outputs;
  std::vector<std::string> constants;  // of each data node, in the order of the text
  std::string written_by;              // the version of Weft
  std::map<std::string, Tensor> tensors;
};

constexpr const char *argument_role = "argument", *parameter_role = "parameter", *buffer_role = "buffer",
                     *result_role = "result", *state_role = "state";

template <class Visit>
void visit_nodes(const Graph& graph, Visit&& visit) {
  for (const Tensor& value : graph.nodes) {
    visit(value);
    for (const auto& body : value.node()->bodies()) visit_nodes(*body, visit);
  }
}

inline GraphView view_of_graph(Graph graph, bool is_imported) {
  return view_of(std::make_shared<const GraphData>(GraphData{std::move(graph), {}, is_imported}));
}

}  // namespace weft::detail
