#include "onnx/program.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "io/file_values.hpp"
#include "onnx/functions.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "record/size_checks.hpp"

namespace weft::onnx {
namespace {

// Programs by the numbers of their models. They stay until the process ends: compiled functions name them in guards.
// Under LockOrder::registry.
std::map<std::uint64_t, std::unique_ptr<const Program>>& programs() {
  static constinit Lazy<std::map<std::uint64_t, std::unique_ptr<const Program>>> all;
  return all.get();
}

// Finds the operators of a graph and of those inside, and what is wrong with them.
struct Linker {
  Program& program;
  Loc loc;
  std::set<std::string> unknown = {};
  std::set<std::string> on_host = {}, state = {};  // names of values

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("onnx::load", loc, program.file, ": ", parts...);
  }

  void link(const GraphData& graph, std::set<std::string> known) {
    std::set<std::string> initializers, inputs;  // one of both is an input that may be left out
    for (const TensorData& each : graph.initializers)
      if (!initializers.insert(each.name).second) refuse("the name ", each.name, " is given twice");
    for (const ValueData& each : graph.inputs)
      if (!inputs.insert(each.name).second) refuse("the name ", each.name, " is given twice");
    known.merge(initializers);
    known.merge(inputs);
    for (const NodeData& node : graph.nodes) {
      const std::int64_t version = program.version_of(node);
      const OperatorRow* const row = node.domain.empty() ? find_operator(node.operation, version) : nullptr;
      if (!row)
        unknown.insert((node.domain.empty() ? node.operation : node.domain + "." + node.operation) +
                       (version == program.version ? "" : concat_text(" (in a function, of set ", version, ')')));
      program.operators[&node] = row;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const std::string& name = node.inputs[i];
        if (name.empty()) continue;
        if (!known.contains(name))
          refuse("node ", node.name, " (", node.operation, ") reads ", name,
                 ", which no input and no earlier node gives: the graph has a cycle, or is not in order");
        if (row && i < 32 && row->host >> i & 1) on_host.insert(name);
        if (row && i < 32 && row->state >> i & 1) state.insert(name);
      }
      for (const AttributeData& each : node.attributes)
        if (each.graph) link(*each.graph, known);
      for (const std::string& name : node.outputs)
        if (!name.empty() && !known.insert(name).second) refuse("the name ", name, " is given twice");
    }
    for (const ValueData& each : graph.outputs)
      if (!known.contains(each.name)) refuse("nothing gives the output ", each.name);
    std::set<std::string> needed;
    for (const ValueData& each : graph.outputs) needed.insert(each.name);
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      std::set<std::string> touched(node->outputs.begin(), node->outputs.end());
      add_reads(*node, touched);
      for (const std::string& name : touched)
        if (needed.insert(name).second) program.last_uses[&*node].push_back(name);
    }
  }
  // What a node reads, and what its graphs do, their own values too.
  static void add_reads(const NodeData& node, std::set<std::string>& names) {
    names.insert(node.inputs.begin(), node.inputs.end());
    for (const AttributeData& attribute : node.attributes) {
      if (!attribute.graph) continue;
      for (const NodeData& each : attribute.graph->nodes) add_reads(each, names);
      for (const ValueData& each : attribute.graph->outputs) names.insert(each.name);
    }
  }
};

// What a serialized graph lacks: digests of the elements in other files, of which it has the places alone, and operator
// sets of nodes.
void append_rest(const GraphData& graph, std::string& key) {
  const auto append = [&](const TensorData& each) {
    if (!each.file) return;
    const auto elements = each.elements();
    key += hex(digest({reinterpret_cast<const char*>(elements.data()), elements.size()}));
  };
  for (const TensorData& each : graph.initializers) append(each);
  for (const NodeData& node : graph.nodes) {
    if (node.version) key += concat_text(" set ", node.version);
    for (const AttributeData& each : node.attributes) {
      if (each.tensor) append(*each.tensor);
      if (each.graph) append_rest(*each.graph, key);
    }
  }
}

std::string type_text(const ValueData& value) {
  std::string text = element_name(value.type);
  if (!value.has_sizes) return text;
  text += '[';
  for (const AxisData& axis : value.axes) {
    if (text.back() != '[') text += ',';
    text += axis.size >= 0 ? std::to_string(axis.size) : axis.name.empty() ? "?" : axis.name;
  }
  return text + ']';
}

Tensor tensor_of(TensorData& data, Loc loc) {
  Type type{dtype_of_element(data.type), false, Device::cpu(), {}};
  for (std::int64_t size : data.sizes) type.shape.push_back(size);
  if (data.file) return io::tensor_over(data.file, data.elements().data(), type, loc);
  return weft::detail::copy_in(data.bytes.data(), type.dtype, type.shape, static_cast<std::size_t>(data.count()),
                               weft::detail::HostData::from_span, loc);
}

void check_input(const ValueData& wanted, const Tensor& given, std::size_t i, EqualSizes& sizes, Loc loc) {
  const std::string text = concat_text("input ", i, " (", wanted.name, ")");
  if (!given.defined()) fail("onnx::Model", loc, text, " is undefined");
  const Shape shape = given.shape(loc);
  bool fits = wanted.type == element_type(given.dtype(loc)) &&
              (!wanted.has_sizes || wanted.axes.size() == static_cast<std::size_t>(shape.rank()));
  for (int axis = 0; fits && wanted.has_sizes && axis < shape.rank(); ++axis) {
    const AxisData& said = wanted.axes[static_cast<std::size_t>(axis)];
    fits = said.size < 0 || shape[axis] == Dim(said.size);
    if (said.size < 0 && !said.name.empty()) sizes.add(said.name, text, axis, shape[axis]);
  }
  if (!fits) fail("onnx::Model", loc, text, " must be ", type_text(wanted), ", and is ", to_string(type_of(given)));
}

}  // namespace

Model make_model(ModelData data, const std::string& file, Loc loc) {
  auto made = std::make_unique<Program>();
  made->file = file;
  made->model = std::move(data);
  GraphData& graph = made->model.graph;
  const auto set = made->model.operator_sets.find("");
  made->version = set == made->model.operator_sets.end() ? 0 : set->second;
  inline_functions(made->model, file, loc);
  Linker linker{*made, loc};
  if (made->version > latest)
    linker.refuse("it is of operator set ", made->version, ", and those up to ", latest, " are read");
  linker.link(graph, {});
  if (!linker.unknown.empty()) {
    std::string names;
    for (const std::string& each : linker.unknown) names += (names.empty() ? "" : ", ") + each;
    linker.refuse("it has operations that are not known in operator set ", made->version, ": ", names);
  }

  Model model;
  for (TensorData& each : graph.initializers) {
    if (each.name.empty()) linker.refuse("an initializer has no name");
    if (!has_dtype(each.type))
      linker.refuse("tensor ", each.name, " is of ", element_name(each.type), ", which is no dtype");
    const bool floats = is_floating(dtype_of_element(each.type)), few = each.count() <= most_known_elements;
    const bool is_state = linker.state.contains(each.name);
    if (is_state || (floats ? !each.sizes.empty() && !linker.on_host.contains(each.name) : !few)) {
      const Tensor tensor = tensor_of(each, loc);
      if (floats && !is_state)
        model.parameters.emplace(each.name, Param(tensor));
      else
        model.buffers.emplace(each.name, Buffer(tensor));
      made->held.push_back(each.name);
      each.bytes = {};
      each.file = {};
    } else if (few) {
      made->constants.emplace(each.name, known_elements(each, loc));
    } else {
      made->tensors.emplace(each.name, &each);
    }
  }
  std::set<std::string> given;
  for (const TensorData& each : graph.initializers) given.insert(each.name);
  for (const ValueData& each : graph.inputs)
    if (!given.contains(each.name)) made->inputs.push_back(&each);

  std::string key = serialize_model(made->model);
  append_rest(graph, key);
  made->key = digest(key);
  model.graph = keep(std::move(made));
  return model;
}

std::uint64_t keep(std::unique_ptr<const Program> program) {
  auto& all = programs();
  const std::lock_guard lock(process_mutex(LockOrder::registry));
  for (std::uint64_t number = program->key.low | 1;; number += 2) {
    const auto found = all.find(number);
    if (found != all.end() && found->second->key != program->key) continue;
    if (found == all.end()) all.emplace(number, std::move(program));
    return number;
  }
}

const Program& program_of(const Model& model, const char* operation, Loc loc) {
  {
    auto& all = programs();
    const std::lock_guard lock(process_mutex(LockOrder::registry));
    if (const auto found = all.find(model.graph); found != all.end()) return *found->second;
  }
  fail(operation, loc,
       model.graph ? "no file of this graph was loaded in this process" : "of a model that was not loaded");
}

std::vector<Value> run_graph(const Program& program, const GraphData& graph, Scope& scope, Device device) {
  std::uint32_t number = 0;
  const Loc whole{program.file.c_str(), 0};
  if (&graph != &program.model.graph)
    for (const TensorData& each : graph.initializers)
      scope.set(each.name, each.count() <= most_known_elements ? Value(known_elements(each, whole))
                                                               : Value(constant_of(each, device, whole)));
  for (const NodeData& node : graph.nodes) {
    const Loc loc{program.file.c_str(), ++number};
    const OperatorRow& row = *program.operators.at(&node);
    const Operation operation(row.name.data(), loc);
    std::vector<Value> inputs;
    for (const std::string& name : node.inputs) {
      const Value* const found = name.empty() ? nullptr : scope.find(name);
      inputs.push_back(found ? *found : Value());
    }
    NodeCall call(program, node, program.version_of(node), std::move(inputs), scope, device, loc);
    try {
      if (!run_on_host(call) && !fold(call, row)) row.run(call);
    } catch (const std::out_of_range&) {
      call.refuse("a list among its attributes or inputs is too short");
    } catch (const std::bad_optional_access&) {
      call.refuse("an attribute or an input is missing");
    } catch (const std::length_error&) {
      call.refuse("an attribute or an input says a size that is too large");
    } catch (const std::bad_alloc&) {
      call.refuse("wants more memory than there is");
    }
    std::vector<Value> outputs = call.take();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= outputs.size()) call.refuse("output ", i, " is not computed");
      scope.set(node.outputs[i], std::move(outputs[i]));
    }
    if (const auto found = program.last_uses.find(&node); found != program.last_uses.end())
      for (const std::string& name : found->second) scope.drop(name);
  }
  std::vector<Value> results;
  for (const ValueData& each : graph.outputs) {
    const Value* const found = scope.find(each.name);
    WEFT_CHECK(found, "an output that nothing gives");
    results.push_back(*found);
  }
  return results;
}

std::vector<Tensor> Model::operator()(const std::vector<Tensor>& inputs) const {
  const Program& program = program_of(*this, "onnx::Model", outermost({}));
  const Loc loc{program.file.c_str(), 0};
  if (inputs.size() != program.inputs.size())
    fail("onnx::Model", loc, "the model takes ",
         counted(static_cast<std::int64_t>(program.inputs.size()), "input", "inputs"), ", and gets ", inputs.size());
  for (const std::string& name : program.held) {
    const auto parameter = parameters.find(name);
    const auto buffer = buffers.find(name);
    const Tensor* const tensor = parameter != parameters.end() ? &parameter->second.tensor()
                                 : buffer != buffers.end()     ? &buffer->second.tensor()
                                                               : nullptr;
    if (!tensor || !tensor->defined())
      fail("onnx::Model", loc, "the model has no value for ", name, ", which is a parameter or buffer of the file");
  }
  Device device = Device::cpu();
  if (!parameters.empty()) device = parameters.begin()->second->device(loc);
  Scope scope;
  EqualSizes sizes("onnx::Model", "the file", loc);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(*program.inputs[i], inputs[i], i, sizes, loc);
    if (i == 0) device = inputs[0].device(loc);
    scope.set(program.inputs[i]->name, inputs[i]);
  }
  for (const auto& [name, value] : parameters) scope.set(name, value.tensor());
  for (const auto& [name, value] : buffers) scope.set(name, value.tensor());
  for (const auto& [name, value] : program.constants) scope.set(name, value);
  for (const auto& [name, data] : program.tensors) scope.set(name, constant_of(*data, device, loc));
  std::vector<Tensor> results;
  for (Value& each : run_graph(program, program.model.graph, scope, device))
    results.push_back(each.tensor(device, loc));
  return results;
}

std::vector<Port> inputs(const Model& model) {
  std::vector<Port> all;
  for (const ValueData* each : program_of(model, "onnx::inputs", {}).inputs)
    all.push_back({each->name, type_text(*each)});
  return all;
}
std::vector<Port> outputs(const Model& model) {
  std::vector<Port> all;
  for (const ValueData& each : program_of(model, "onnx::outputs", {}).model.graph.outputs)
    all.push_back({each.name, type_text(each)});
  return all;
}

Model load(const std::string& path, Loc loc) {
  const auto file = MappedFile::open("onnx::load", path.c_str(), loc);
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return make_model(parse_model(file->bytes(), name, folder_of(path), loc, file), name, loc);
}
Model load(std::span<const std::byte> bytes, Loc loc) {
  const std::span elements(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  return make_model(parse_model(elements, "model.onnx", "", loc), "model.onnx", loc);
}

namespace {
std::vector<std::span<const OperatorRow>> tables() {
  return {basic_operators(), shape_operators(),   layer_operators(),
          image_operators(), control_operators(), other_operators()};
}
}  // namespace
const OperatorRow* find_operator(std::string_view name, std::int64_t version) {
  for (const auto rows : tables())
    for (const OperatorRow& row : rows)
      if (row.name == name && row.since <= version && version <= row.until) return &row;
  return nullptr;
}
std::vector<std::string> operations() {
  std::set<std::string> names;
  for (const auto rows : tables())
    for (const OperatorRow& row : rows) names.emplace(row.name);
  return {names.begin(), names.end()};
}

}  // namespace weft::onnx
