// onnx::save, which writes what a call has traced, and onnx::to_bytes, which writes a graph.
#include <algorithm>

#include "base/fail.hpp"
#include "base/file.hpp"
#include "export/names.hpp"
#include "onnx/engine.hpp"
#include "trace/call_context.hpp"
#include "weft/onnx.hpp"

namespace weft::onnx {

ModelPorts ports_of(const GraphView& graph, std::span<const Tensor> constants, Loc loc) {
  if (constants.size() > graph.inputs().size())
    fail("onnx::to_bytes", loc, "the graph has ", graph.inputs().size(), " inputs, and ", constants.size(),
         " constants were given");
  ModelPorts ports;
  ports.initializers.assign(constants.begin(), constants.end());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) ports.inputs.push_back(concat_text("input_", i));
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) ports.outputs.push_back({concat_text("output_", i), i});
  return ports;
}

void detail::save_call(const NewModel& to, const weft::detail::FunctionHandle& handle,
                       const weft::detail::CallSignature& signature) {
  using namespace weft::detail;
  const Scratch& scratch = innermost_scratch();
  const Specialization* const found = handle.get()->find(scratch.words);
  WEFT_CHECK(found, "a call that was traced has no specialization");
  const TraceResult& traced = found->first().traced;
  const Loc loc = to.loc;
  const std::string file = to.path.substr(to.path.find_last_of('/') + 1);
  if (!traced.states.empty() || !traced.numbers.empty())
    fail("onnx::save", loc, file, ": the function changes its arguments, and a graph of ONNX can't");
  if (traced.generator.kind != Source::Kind::undefined) fail("onnx::save", loc, file, ": the function draws numbers");

  const CallLayout layout(signature, scratch.arguments, scratch.words);
  UniqueNames names;
  for (const auto* const list : {&to.options.input_names, &to.options.output_names})
    for (const std::string& name : *list)
      if (names.unique(name) != name) fail("onnx::save", loc, file, ": SaveOptions gives the name ", name, " twice");
  const auto chosen = [](const std::vector<std::string>& list, std::size_t i) {
    return i < list.size() ? list[i] : std::string();
  };
  const auto check_count = [&](const char* option, const std::vector<std::string>& list, std::size_t wanted) {
    if (!list.empty() && list.size() != wanted)
      fail("onnx::save", loc, file, ": SaveOptions::", option, " has ", list.size(), ", and the function has ", wanted);
  };
  const auto named = [&](std::size_t leaf) {
    std::string name = input_name(layout, leaf);
    if (names.has(name)) name = concat_text("argument_", layout.leaf(leaf).argument, ".", name);
    return names.unique(std::move(name));
  };
  ModelPorts ports;
  std::size_t input_count = 0;
  for (const std::uint32_t leaf : traced.inputs) {
    if (leaf >= layout.leaf_count()) fail("onnx::save", loc, file, ": the function draws numbers");
    const Leaf& given = layout.leaf(leaf);
    const bool stays = given.kind == LeafKind::param || given.kind == LeafKind::buffer;
    const std::string name = stays ? std::string() : chosen(to.options.input_names, input_count++);
    ports.inputs.push_back(name.empty() ? named(leaf) : name);
    ports.initializers.push_back(stays ? given.tensor() : Tensor());
  }
  check_count("input_names", to.options.input_names, input_count);
  const std::vector<std::string> members = result_members(signature, scratch.results);
  for (std::size_t i = 0; i < traced.results.size(); ++i) {
    const Source& each = traced.results[i];
    if (each.kind == Source::Kind::undefined) continue;
    std::string name = chosen(to.options.output_names, ports.outputs.size());
    if (name.empty()) name = names.unique(output_name(members[i], ports.outputs.size()));
    if (each.kind == Source::Kind::computed) {
      ports.outputs.push_back({std::move(name), each.index});
      continue;
    }
    const auto input = std::ranges::find(traced.inputs, each.index);
    if (input == traced.inputs.end())
      fail("onnx::save", loc, file, ": the function returns an argument that it does not read");
    ports.outputs.push_back({std::move(name), static_cast<std::size_t>(input - traced.inputs.begin()), true});
  }
  check_count("output_names", to.options.output_names, ports.outputs.size());
  const WrittenModel written = write_model(traced.graph, ports, {"onnx::save", file, loc});
  NewFile out("onnx::save", to.path.c_str(), loc);
  out.write(serialize_model(written.model));
  out.finish();
}

std::vector<std::byte> to_bytes(const GraphView& graph, std::span<const Tensor> constants, Loc loc) {
  const ModelPorts ports = ports_of(graph, constants, loc);
  const std::string bytes =
      serialize_model(write_model(weft::detail::graph_of(graph), ports, {"onnx::to_bytes", {}, loc}).model);
  const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

}  // namespace weft::onnx
