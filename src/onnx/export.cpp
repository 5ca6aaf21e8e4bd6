// Writing a graph as an ONNX model. In: a graph, composites whole. Out: a model of operator set 23.
#include "onnx/export.hpp"

#include <algorithm>

#include "io/file_values.hpp"
#include "ir/callee.hpp"
#include "onnx/writer.hpp"

namespace weft::onnx {

namespace {

constexpr std::int64_t written_set = 23;

// `used`: names that are read, of graphs inside too.
void note_names(const GraphData& graph, std::set<std::string>& used) {
  for (const ValueData& each : graph.outputs) used.insert(each.name);
  for (const NodeData& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const AttributeData& each : node.attributes)
      if (each.graph) note_names(*each.graph, used);
  }
}
// Takes out nodes and initializers that nothing reads, and gives the names that are read.
std::set<std::string> drop_unread(GraphData& graph) {
  std::set<std::string> used;
  for (const ValueData& each : graph.outputs) used.insert(each.name);
  std::vector<NodeData> kept;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    NodeData& node = graph.nodes[i];
    if (std::ranges::none_of(node.outputs, [&](const std::string& name) { return used.contains(name); })) continue;
    for (AttributeData& each : node.attributes)
      if (each.graph) {
        drop_unread(*each.graph);
        note_names(*each.graph, used);
      }
    used.insert(node.inputs.begin(), node.inputs.end());
    kept.push_back(std::move(node));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
  std::erase_if(graph.initializers, [&](const TensorData& each) { return !used.contains(each.name); });
  return used;
}

}  // namespace

WrittenModel write_model(const Graph& traced, const ModelPorts& ports, const ModelPurpose& purpose) {
  const Graph graph = with_calls_inlined(traced, [](const Node& node) { return !has_node(node); });
  Writer writer(graph, purpose);
  writer.made.name = "graph";
  for (const std::string& name : ports.inputs) writer.taken.insert(name);
  for (const ModelPorts::Output& each : ports.outputs) writer.taken.insert(each.name);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = ports.inputs[i];
    writer.set(graph.inputs[i], name);
    if (i >= ports.initializers.size() || !ports.initializers[i].defined()) {
      writer.made.inputs.push_back(Writer::port(name, type_of(graph.inputs[i])));
      continue;
    }
    const Tensor& value = ports.initializers[i];
    TensorData data{name, element_type(type_of(value).dtype)};
    for (Dim each : value.shape()) data.sizes.push_back(each.constant());
    const io::HostElements elements(value, purpose.loc);
    data.bytes.assign(elements.bytes().begin(), elements.bytes().end());
    writer.made.initializers.push_back(std::move(data));
  }
  writer.nodes_of(graph);
  std::vector<Tensor> values;
  std::vector<std::string> names;
  for (const ModelPorts::Output& each : ports.outputs) {
    values.push_back((each.is_input ? graph.inputs : graph.outputs)[each.index]);
    names.push_back(each.name);
  }
  WrittenModel written;
  for (const Tensor& effect : graph.effects) {
    if (!purpose.for_engine || effect.node()->op != Op::check) continue;
    written.checks.push_back(interned_text(effect.node()->attributes<Message>().text.id));
    values.push_back(effect.node()->input(0));
    names.push_back(writer.fresh());
  }
  writer.outputs_of(values, names);
  const std::set<std::string> read = drop_unread(writer.made);
  if (purpose.for_engine)
    std::erase_if(writer.made.inputs, [&](const ValueData& each) { return !read.contains(each.name); });
  for (const std::string& name : ports.inputs) written.reads.push_back(read.contains(name));
  written.model = {10, {{"", written_set}}, "weft"};
  written.model.graph = std::move(writer.made);
  return written;
}

}  // namespace weft::onnx
