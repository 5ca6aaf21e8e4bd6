// onnx::save, which writes what a call has traced, and onnx::to_bytes, which writes a graph.
#include <algorithm>
#include <set>

#include "base/fail.hpp"
#include "io/file.hpp"
#include "onnx/engine.hpp"
#include "trace/call_context.hpp"
#include "weft/onnx.hpp"

namespace weft::onnx {
namespace {

// `argument 0 (in.weight)` as in.weight.
std::string path_in(const std::string& name) {
  const std::size_t open = name.find('('), close = name.rfind(')');
  return open == name.npos || close == name.npos ? std::string() : name.substr(open + 1, close - open - 1);
}

}  // namespace

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

weft::detail::FunctionHandle detail::function_to_save(const weft::detail::FunctionHandle& function, Loc loc) {
  return weft::detail::FunctionHandle(weft::detail::make_function(
      {.dynamic = function.get()->options.dynamic, .check = Check::never, .backend = Backend::eager, .fullgraph = true},
      loc));
}
void detail::save_call(const std::string& path, const weft::detail::FunctionHandle& handle,
                       const weft::detail::CallSignature& signature, Loc loc) {
  using namespace weft::detail;
  const Scratch& scratch = innermost_scratch();
  const Specialization* const found = handle.get()->find(scratch.words);
  WEFT_CHECK(found, "a call that was traced has no specialization");
  const TraceResult& traced = found->first().traced;
  const std::string file = path.substr(path.find_last_of('/') + 1);
  if (!traced.states.empty() || !traced.numbers.empty())
    fail("onnx::save", loc, file, ": the function changes its arguments, and a graph of ONNX can't");
  if (traced.generator.kind != Source::Kind::undefined) fail("onnx::save", loc, file, ": the function draws numbers");

  const CallLayout layout(signature, scratch.arguments, scratch.words);
  std::set<std::string> taken;
  const auto named = [&](std::size_t leaf) {
    const std::string text = path_in(layout.name(leaf));
    std::string name = text.empty() ? concat_text("input_", layout.leaf(leaf).argument) : text;
    if (taken.contains(name)) name = concat_text("argument_", layout.leaf(leaf).argument, ".", name);
    while (!taken.insert(name).second) name += '_';
    return name;
  };
  ModelPorts ports;
  for (const std::uint32_t leaf : traced.inputs) {
    if (leaf >= layout.leaf_count()) fail("onnx::save", loc, file, ": the function draws numbers");
    ports.inputs.push_back(named(leaf));
    const Leaf& given = layout.leaf(leaf);
    const bool stays = given.kind == LeafKind::param || given.kind == LeafKind::buffer;
    ports.initializers.push_back(stays ? given.tensor() : Tensor());
  }
  for (const Source& each : traced.results) {
    if (each.kind == Source::Kind::undefined) continue;
    std::string name = ports.outputs.empty() ? "output" : concat_text("output_", ports.outputs.size());
    while (!taken.insert(name).second) name += '_';
    if (each.kind == Source::Kind::computed) {
      ports.outputs.push_back({std::move(name), each.index});
      continue;
    }
    const auto input = std::ranges::find(traced.inputs, each.index);
    if (input == traced.inputs.end())
      fail("onnx::save", loc, file, ": the function returns an argument that it does not read");
    ports.outputs.push_back({std::move(name), static_cast<std::size_t>(input - traced.inputs.begin()), true});
  }
  const WrittenModel written = write_model(traced.graph, ports, {"onnx::save", file, loc});
  io::NewFile out("onnx::save", path.c_str(), loc);
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
