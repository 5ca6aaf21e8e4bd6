// Exports a call. In: what it has traced. Out: a graph with the names of its inputs and outputs, and its weights.
#include <algorithm>

#include "base/fail.hpp"
#include "export/exported_graph.hpp"
#include "export/names.hpp"
#include "record/evaluate.hpp"
#include "record/unknown_values.hpp"
#include "trace/call_context.hpp"
#include "weft/version.hpp"

namespace weft::detail {

ExportScope::ExportScope(const char* operation, Loc line) { exporter = {operation, line}; }
ExportScope::~ExportScope() { exporter = {}; }

FunctionHandle function_to_export(const FunctionHandle& function) {
  CompileOptions options;
  options.dynamic = function.get()->options.dynamic;
  options.autocast = function.get()->options.autocast;
  options.check = Check::never;
  options.backend = Backend::eager;
  options.fullgraph = true;
  return FunctionHandle(make_function(options, function.get()->loc));
}
Loc loc_of(const FunctionHandle& function) { return function.get()->loc; }

ExportedGraph make_exported(const FunctionHandle& function, const CallSignature& signature, Loc loc) {
  const Scratch& scratch = innermost_scratch();
  const Specialization* const found = function.get()->find(scratch.words);
  WEFT_CHECK(found, "a call that was traced has no specialization");
  const TraceResult& traced = found->first().traced;
  const CallLayout layout(signature, scratch.arguments, scratch.words);
  const std::vector<std::string> members = result_members(signature, scratch.results);
  const auto refuse = [&](const auto&... words) { fail("export_graph", loc, words...); };
  if (traced.generator.kind != Source::Kind::undefined)
    refuse("the function draws from the default generator: give it a Generator& as an argument");
  if (!traced.numbers.empty())
    refuse("the function changes the number ", layout.name(traced.numbers[0].leaf),
           ", which no tensor is: make it an Index, a Scalar or a Buffer");
  visit_nodes(traced.graph, [&](const Tensor& value) {
    if (value.node()->op == Op::host_call)
      fail("export_graph", value.node()->loc, "the function calls the host, and its code is not in a graph");
  });

  Graph graph = traced.graph;
  std::vector<GraphPort> inputs, outputs;
  std::map<std::string, Tensor> tensors;
  UniqueNames names, output_names;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::size_t leaf = traced.inputs[i];
    const Leaf& given = layout.leaf(leaf);
    const std::string name = names.unique(input_name(layout, leaf));
    const bool is_weight = given.kind == LeafKind::param || given.kind == LeafKind::buffer;
    inputs.push_back({name,
                      given.kind == LeafKind::param    ? parameter_role
                      : given.kind == LeafKind::buffer ? buffer_role
                                                       : argument_role,
                      to_string(type_of(graph.inputs[i]))});
    if (is_weight) tensors.emplace(name, given.tensor());
  }
  const auto value_of = [&](const Source& source) {
    if (source.kind == Source::Kind::computed) return traced.graph.outputs[source.index];
    const auto input = std::ranges::find(traced.inputs, source.index);
    if (input == traced.inputs.end())
      refuse("the function gives an argument back that it does not read: ", layout.name(source.index));
    return graph.inputs[static_cast<std::size_t>(input - traced.inputs.begin())];
  };
  const auto add_output = [&](const Source& source, const std::string& name, const char* role) {
    graph.outputs.push_back(value_of(source));
    outputs.push_back({output_names.unique(name), role, to_string(type_of(graph.outputs.back()))});
  };
  graph.outputs.clear();
  for (std::size_t i = 0; i < traced.results.size(); ++i)
    if (traced.results[i].kind != Source::Kind::undefined)
      add_output(traced.results[i], output_name(members[i], outputs.size()), result_role);
  for (const StateTensor& state : traced.states) {
    if (state.source.kind == Source::Kind::undefined) refuse("the function makes an argument undefined");
    const auto input = std::ranges::find(traced.inputs, state.leaf);
    add_output(state.source,
               input != traced.inputs.end() ? inputs[static_cast<std::size_t>(input - traced.inputs.begin())].name
                                            : input_name(layout, state.leaf),
               state_role);
  }
  std::vector<std::string> constants;
  std::map<const Storage*, std::string> known;
  visit_nodes(graph, [&](const Tensor& value) {
    if (value.node()->op != Op::data) return;
    const Storage* const storage = storage_of(value);
    std::string& name = known[storage];
    if (name.empty() || !storage) {
      name = names.unique(concat_text("constant.", tensors.size()));
      if (storage) tensors.emplace(name, value);
    }
    constants.push_back(name);
  });
  return ExportedGraph(std::make_shared<const ExportedData>(
      ExportedData{view_of_graph(std::move(graph), false), std::move(inputs), std::move(outputs), std::move(constants),
                   std::string(version()), std::move(tensors)}));
}

}  // namespace weft::detail
