#include "onnx/functions.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fail.hpp"
#include "onnx/call.hpp"

namespace weft::onnx {
namespace {

constexpr std::size_t most_nodes = std::size_t{1} << 17;  // functions that call others twice double them at each level
constexpr std::size_t most_open = 64;                     // functions inside one another

struct Inliner {
  const std::string& file;
  Loc loc;
  std::map<std::array<std::string, 3>, const FunctionData*> functions = {};  // by domain, name and overload
  std::vector<const FunctionData*> open = {};                                // whose bodies are made
  std::size_t calls = 0, nodes = 0;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("onnx::load", loc, file, ": ", parts...);
  }
  static std::string name_of(const NodeData& node) {
    return "node " + node.name + (node.name.empty() ? "of " : " (") + node.operation + (node.name.empty() ? "" : ")");
  }

  // A call: what the names of the function's body are in the graph, and its attributes.
  struct Call {
    const NodeData& node;
    const FunctionData& function;
    std::string prefix;                             // of names that only the body has
    std::map<std::string, std::string> names = {};  // of its inputs and outputs
    std::int64_t version = 0;

    std::string name(const std::string& own) const {
      const auto found = names.find(own);
      return found != names.end() ? found->second : own.empty() ? own : prefix + own;
    }
  };

  AttributeData attribute(const AttributeData& own, const Call& call) const {
    if (!own.reference.empty()) {
      const AttributeData* found = call.node.find(own.reference);
      for (const AttributeData& each : call.function.defaults)
        if (!found && each.name == own.reference) found = &each;
      if (!found)
        refuse(name_of(call.node), " does not give the attribute ", own.reference, " of the function ",
               call.function.name, ", which has no default for it");
      AttributeData given = *found;
      given.name = own.name;
      return given;
    }
    AttributeData made = own;
    if (own.graph) {
      made.graph = std::make_shared<GraphData>(*own.graph);
      for (NodeData& each : made.graph->nodes) each = body_node(each, call);
      for (TensorData& each : made.graph->initializers) each.name = call.name(each.name);
      for (auto* const ports : {&made.graph->inputs, &made.graph->outputs})
        for (ValueData& each : *ports) each.name = call.name(each.name);
    }
    return made;
  }
  NodeData body_node(const NodeData& own, const Call& call) const {
    NodeData made = own;
    if (!own.name.empty()) made.name = call.prefix + own.name;
    made.version = call.version;
    for (auto* const names : {&made.inputs, &made.outputs})
      for (std::string& each : *names) each = call.name(each);
    for (AttributeData& each : made.attributes) each = attribute(each, call);
    return made;
  }

  void append_body(const NodeData& node, const FunctionData& function, std::vector<NodeData>& to) {
    if (std::ranges::find(open, &function) != open.end())
      refuse("the function ", function.name, " calls itself, which no function may");
    if (open.size() >= most_open) refuse("functions call one another more than ", most_open, " deep");
    const auto check_count = [&](const char* what, std::size_t given, std::size_t taken) {
      if (given > taken)
        refuse(name_of(node), " has ",
               counted(static_cast<std::int64_t>(given), what, (what + std::string("s")).c_str()),
               ", and the function ", function.name, " has ", taken);
    };
    check_count("input", node.inputs.size(), function.inputs.size());
    check_count("output", node.outputs.size(), function.outputs.size());
    if (++calls > most_nodes) refuse("it calls functions more than ", most_nodes, " times");
    Call call{node, function, concat_text(function.name, '.', calls, '/')};
    const auto set = function.operator_sets.find("");
    call.version = set == function.operator_sets.end() ? 0 : set->second;
    if (call.version > latest)
      refuse("the function ", function.name, " is of operator set ", call.version, ", and those up to ", latest,
             " are read");
    for (std::size_t i = 0; i < function.inputs.size(); ++i)
      call.names[function.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : std::string();
    std::vector<NodeData> body, copies;
    for (std::size_t i = 0; i < function.outputs.size(); ++i) {
      const std::string& own = function.outputs[i];
      if (i >= node.outputs.size() || node.outputs[i].empty()) continue;
      // What is an input, or an output twice, has a name already.
      if (!call.names.emplace(own, node.outputs[i]).second)
        copies.push_back({"", "Identity", "", {call.name(own)}, {node.outputs[i]}, {}, "", latest});
    }
    for (const NodeData& each : function.nodes) body.push_back(body_node(each, call));
    std::ranges::move(copies, std::back_inserter(body));
    open.push_back(&function);
    expand(std::move(body), to);
    open.pop_back();
  }

  void expand(std::vector<NodeData> all, std::vector<NodeData>& to) {
    for (NodeData& node : all) {
      const auto function = functions.find({node.domain, node.operation, node.overload});
      if (function != functions.end()) {
        append_body(node, *function->second, to);
        continue;
      }
      if (++nodes > most_nodes) refuse("it has more than ", most_nodes, " nodes when functions are their bodies");
      for (AttributeData& each : node.attributes) {
        if (!each.reference.empty())
          refuse(name_of(node), " has the attribute ", each.reference, " of a function, and is in none");
        if (each.graph) expand(std::exchange(each.graph->nodes, {}), each.graph->nodes);
      }
      to.push_back(std::move(node));
    }
  }
};

}  // namespace

void inline_functions(ModelData& model, const std::string& file, Loc loc) {
  Inliner inliner{file, loc};
  for (const FunctionData& each : model.functions)
    if (!inliner.functions.try_emplace({each.domain, each.name, each.overload}, &each).second)
      inliner.refuse("the function ", each.name, " is defined twice");
  inliner.expand(std::exchange(model.graph.nodes, {}), model.graph.nodes);
  model.functions.clear();
}

}  // namespace weft::onnx
