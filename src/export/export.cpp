// Exported graphs as files. In: a graph; its text or JSON. Out: the other one, and a graph that runs. The text is a
// head, a line an input, an output and a constant, and the graph's own text (ir/graph.hpp, ir/parse.hpp); JSON holds
// the same (ir/graph_json.hpp).
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/fail.hpp"
#include "base/file.hpp"
#include "base/text_reader.hpp"
#include "export/exported_graph.hpp"
#include "export/imported_checks.hpp"
#include "ir/graph_json.hpp"
#include "ir/operation_set.hpp"
#include "ir/parse.hpp"
#include "record/dry_run.hpp"
#include "record/evaluate.hpp"
#include "record/size_checks.hpp"
#include "weft/io.hpp"

namespace weft {
namespace detail {

namespace {

using Json = nlohmann::ordered_json;

// ---- text -----------------------------------------------------------------------------------------------------------

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? "\\n" : std::string(1, c);
  }
  return result + "\"";
}

constexpr const char* head = "weft graph, operation set ";

std::string to_text(const ExportedData& data) {
  std::string text = concat_text(head, operation_set, ", by weft ", data.written_by, "\n");
  for (const GraphPort& port : data.inputs) text += "input " + port.role + " " + quoted(port.name) + "\n";
  for (const GraphPort& port : data.outputs) text += "output " + port.role + " " + quoted(port.name) + "\n";
  for (const std::string& name : data.constants) text += "constant " + quoted(name) + "\n";
  return text + weft::to_text(graph_of(data.view));
}

Json to_json(const ExportedData& data) {
  Json made{{"format", "weft graph"}, {"operation_set", operation_set}, {"written_by", "weft " + data.written_by}};
  const auto ports = [](const std::vector<GraphPort>& list) {
    Json all = Json::array();
    for (const GraphPort& port : list) all.push_back({{"name", port.name}, {"role", port.role}, {"type", port.type}});
    return all;
  };
  made["inputs"] = ports(data.inputs);
  made["outputs"] = ports(data.outputs);
  made["constants"] = data.constants;
  made["graph"] = json_of(graph_of(data.view));
  return made;
}

constexpr const char* operation = "import_graph";

void check_set(std::int64_t set, const std::string& by, Loc loc) {
  if (set < 1) fail(operation, loc, "operation set ", set, " is none");
  if (set > operation_set)
    fail(operation, loc, "the graph was written with operation set ", set, by.empty() ? "" : " by weft " + by,
         ", and this version of Weft reads sets up to ", operation_set);
}

// What a file says besides the graph.
struct Head {
  std::vector<GraphPort> inputs, outputs;
  std::vector<std::string> constants;
  std::string written_by;
};

class HeadReader final : TextReader {
 public:
  HeadReader(std::string_view text, Loc loc) : TextReader(operation, text), loc_(loc) {}
  Head run() {
    Head made;
    expect(head);
    const std::int64_t set = integer();
    expect(", by weft ");
    made.written_by = take_while([](char c) { return c != '\n'; });
    expect("\n");
    check_set(set, made.written_by, loc_);
    while (accept("input ")) made.inputs.push_back(port({argument_role, parameter_role, buffer_role}));
    while (accept("output ")) made.outputs.push_back(port({result_role, state_role}));
    while (accept("constant ")) made.constants.push_back(name());
    return made;
  }
  std::string_view rest() const { return text_.substr(at_); }

 private:
  bool names_atom(char) const override { return false; }
  Dim atom(char, int) override { return {}; }
  GraphPort port(std::initializer_list<const char*> roles) {
    for (const char* role : roles)
      if (accept(role)) {
        expect(" ");
        return {name(), role, ""};
      }
    refuse("what it is");
  }
  std::string name() {
    expect("\"");
    std::string made;
    while (!accept("\"")) {
      const bool escaped = accept("\\");
      if (at_end() || is("\n")) refuse("the end of a name");
      made += escaped && is("n") ? '\n' : text_[at_];
      ++at_;
    }
    expect("\n");
    return made;
  }
  Loc loc_;
};

Head head_of(const Json& json, Loc loc) {
  const auto refuse = [&](const auto&... words) { fail(operation, loc, "the JSON is no graph: ", words...); };
  if (!json.is_object() || json.value("format", Json()) != "weft graph") refuse("its format is not \"weft graph\"");
  const auto set = json.find("operation_set");
  if (set == json.end() || !set->is_number_integer()) refuse("it has no operation set");
  const auto text = [&](const Json& of, const char* name) -> std::string {
    const auto found = of.is_object() ? of.find(name) : of.end();
    if (!of.is_object() || found == of.end() || !found->is_string()) refuse("'", name, "' is missing, or no text");
    return found->get<std::string>();
  };
  const auto list = [&](const char* name) -> const Json& {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_array()) refuse("'", name, "' is missing, or no list");
    return *found;
  };
  Head made;
  made.written_by = text(json, "written_by");
  if (made.written_by.starts_with("weft ")) made.written_by.erase(0, 5);
  if (made.written_by.find('\n') != std::string::npos) refuse("'written_by' has more than one line");
  check_set(set->is_number_unsigned() && set->get<std::uint64_t>() > INT64_MAX ? INT64_MAX : set->get<std::int64_t>(),
            made.written_by, loc);
  const auto ports = [&](const char* name, std::initializer_list<std::string_view> roles) {
    std::vector<GraphPort> all;
    for (const Json& each : list(name)) {
      all.push_back({text(each, "name"), text(each, "role"), ""});
      if (std::ranges::find(roles, all.back().role) == roles.end())
        refuse("no port has the role '", all.back().role, "'");
    }
    return all;
  };
  made.inputs = ports("inputs", {argument_role, parameter_role, buffer_role});
  made.outputs = ports("outputs", {result_role, state_role});
  for (const Json& each : list("constants")) {
    if (!each.is_string()) refuse("the name of a constant is no text");
    made.constants.push_back(each.get<std::string>());
  }
  return made;
}

// In dtype, device, and sizes that are numbers.
bool is_for(const Type& wanted, const Tensor& given) {
  if (!given.defined()) return false;
  const Type& type = type_of(given);
  bool same = type.dtype == wanted.dtype && type.device == wanted.device && type.shape.rank() == wanted.shape.rank();
  for (int axis = 0; same && axis < wanted.shape.rank(); ++axis)
    same = !wanted.shape[axis].is_constant() || wanted.shape[axis].same(type.shape[axis]);
  return same;
}

// Sizes are of the graph's symbols.
void check_sizes(const Graph& graph, Loc loc) {
  const auto look = [&](Dim size) {
    dims::any_atom(size, [&](const DimNode& atom) {
      if (atom.kind == DimKind::symbol &&
          (atom.number < 0 || static_cast<std::size_t>(atom.number) >= graph.symbols.size()))
        fail(operation, loc, "a size is s", atom.number, ", and the graph has no such symbol");
      return false;
    });
    return size;
  };
  for (const DimCondition& condition : graph.conditions) look(condition.left), look(condition.right);
  visit_nodes(graph, [&](const Tensor& value) {
    const Node& node = *value.node();
    for (const Tensor& result : results_of(value))
      for (int axis = 0; axis < type_of(result).shape.rank(); ++axis) look(type_of(result).shape[axis]);
    (void)node.attributes().with_sizes(look);
    for (const auto& body : node.bodies())
      if (!body->symbols.empty()) fail(operation, loc, "a body has symbols of its own");
  });
}

// The graph holds together: what is wrong is an Error, as of any input.
void check(const Graph& graph, const Head& head, Loc loc) {
  if (graph.inputs.size() != head.inputs.size() || graph.outputs.size() != head.outputs.size())
    fail(operation, loc, "the graph has ", graph.inputs.size(), " inputs and ", graph.outputs.size(),
         " outputs, and their list ", head.inputs.size(), " and ", head.outputs.size());
  std::size_t constants = 0;
  visit_nodes(graph, [&](const Tensor& value) {
    constants += value.node()->op == Op::data;
    if (value.node()->op == Op::host_call) fail(operation, loc, "the graph calls a function of another program");
  });
  if (constants != head.constants.size())
    fail(operation, loc, "the graph has ", constants, " constants, and their list ", head.constants.size());
  check_sizes(graph, loc);
  check_imported(graph, operation, loc);
  try {
    verify(graph);
  } catch (const InternalError& error) {
    const std::string text = error.what();
    fail(operation, loc, "the graph does not hold together: ", text.substr(0, text.find('\n')));
  }
  std::vector<std::int64_t> examples;
  for (const DimSymbol& symbol : graph.symbols) examples.push_back(symbol.hint);
  check_guards(graph, examples, operation, loc);
  check_sizes_at(graph, examples, operation, loc);
}

}  // namespace

}  // namespace detail

using detail::ExportedData;

int operation_set_version() { return operation_set; }

std::string ExportedGraph::text() const { return detail::to_text(*data_); }
std::string ExportedGraph::json() const {
  try {
    return detail::to_json(*data_).dump(1) + "\n";
  } catch (const nlohmann::json::type_error&) {
    fail("ExportedGraph", {}, "a name in the graph is not UTF-8, which JSON needs: write it as text");
  }
}
const std::vector<GraphPort>& ExportedGraph::inputs() const { return data_->inputs; }
const std::vector<GraphPort>& ExportedGraph::outputs() const { return data_->outputs; }
const GraphView& ExportedGraph::graph() const { return data_->view; }
const std::map<std::string, Tensor>& ExportedGraph::tensors() const { return data_->tensors; }

namespace {

void check_constants(const ExportedData& data, Loc loc) {
  for (const std::string& name : data.constants)
    if (!data.tensors.contains(name))
      fail("ExportedGraph", loc, "the constant '", name, "' is missing: give it to import_graph");
}
// Says by the names of the inputs which of them the graph does not take.
void check_inputs(const ExportedData& data, std::span<const Tensor> inputs, Loc loc) {
  const std::vector<Tensor>& wanted = data.view.inputs();
  EqualSizes named("ExportedGraph", "the graph", loc);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto text = [&] { return concat_text("the ", data.inputs[i].role, " '", data.inputs[i].name, "'"); };
    if (!inputs[i].defined()) fail("ExportedGraph", loc, text(), " is an undefined tensor");
    if (!detail::is_for(type_of(wanted[i]), inputs[i]))
      fail("ExportedGraph", loc, text(), " is ", to_string(type_of(inputs[i])), ", and the graph's is ",
           data.inputs[i].type);
    const Shape& shape = type_of(wanted[i]).shape;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (!shape[axis].is_constant())
        named.add(dims::to_string(shape[axis]), text(), axis, type_of(inputs[i]).shape[axis]);
  }
}
// The graph's inputs: the arguments, and the weights in between.
std::vector<Tensor> all_inputs(const ExportedData& data, std::span<const Tensor> arguments, Loc loc) {
  const auto is_argument = [](const GraphPort& port) { return port.role == detail::argument_role; };
  const std::ptrdiff_t wanted = std::ranges::count_if(data.inputs, is_argument);
  if (static_cast<std::size_t>(wanted) != arguments.size())
    fail("ExportedGraph", loc, "the graph takes ", counted(wanted, "argument", "arguments"), ", and ", arguments.size(),
         " were given");
  std::vector<Tensor> inputs;
  std::size_t next = 0;
  for (const GraphPort& port : data.inputs) {
    if (is_argument(port)) {
      inputs.push_back(arguments[next++]);
      continue;
    }
    const auto found = data.tensors.find(port.name);
    if (found == data.tensors.end())
      fail("ExportedGraph", loc, "the weight '", port.name, "' is missing: give it to import_graph");
    inputs.push_back(found->second);
  }
  check_constants(data, loc);
  check_inputs(data, inputs, loc);
  return inputs;
}

}  // namespace

std::vector<Tensor> ExportedGraph::operator()(std::span<const Tensor> arguments, Loc loc) const {
  const std::vector<Tensor> inputs = all_inputs(*data_, arguments, loc);
  evaluate(inputs, loc);
  return data_->view.run(inputs, loc);
}
std::function<std::vector<Tensor>(std::span<const Tensor>)> ExportedGraph::compiled() const {
  check_constants(*data_, {});
  return [run = data_->view.compiled(), data = data_](std::span<const Tensor> arguments) {
    return run(all_inputs(*data, arguments, {}));
  };
}

ExportedGraph import_graph(std::string_view text, std::map<std::string, Tensor> tensors, Loc loc) {
  using namespace detail;
  Head head;
  std::string body;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != text.npos && text[first] == '{';
  if (is_json) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) fail(operation, loc, "the text is no JSON");
    head = head_of(json, loc);
    if (!json.contains("graph")) fail(operation, loc, "the JSON is no graph: 'graph' is missing");
    body = text_of_json(json["graph"], operation, loc);
  } else {
    HeadReader reader(text, loc);
    head = reader.run();
    body = reader.rest();
  }
  BesideText beside;
  beside.operation = is_json ? "import_graph, the JSON as text" : "import_graph, after the head";
  for (const std::string& name : head.constants) {
    const auto found = tensors.find(name);
    if (found != tensors.end()) evaluate(std::span(&found->second, 1), loc);
    beside.data.push_back(found == tensors.end() ? unknown_value({}, loc) : found->second);
  }
  Graph graph = parse_graph(body, beside);
  check(graph, head, loc);
  auto constant = head.constants.begin();
  visit_nodes(graph, [&](const Tensor& value) {
    if (value.node()->op != Op::data) return;
    const auto found = tensors.find(*constant++);
    if (found != tensors.end() && !is_for(type_of(value), found->second))
      fail(operation, loc, "the constant '", found->first, "' is ", to_string(type_of(found->second)),
           ", and the graph's is ", to_string(type_of(value)));
  });
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    head.inputs[i].type = to_string(type_of(graph.inputs[i]));
    const auto found = tensors.find(head.inputs[i].name);
    if (head.inputs[i].role != argument_role && found != tensors.end() &&
        !is_for(type_of(graph.inputs[i]), found->second))
      fail(operation, loc, "the weight '", found->first, "' is ", to_string(type_of(found->second)),
           ", and the graph's is ", head.inputs[i].type);
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) head.outputs[i].type = to_string(type_of(graph.outputs[i]));
  return ExportedGraph(std::make_shared<const ExportedData>(
      ExportedData{view_of_graph(std::move(graph), true), std::move(head.inputs), std::move(head.outputs),
                   std::move(head.constants), std::move(head.written_by), std::move(tensors)}));
}

namespace {
std::string tensors_path(const std::string& path) {
  for (const std::string_view ending : {".json", ".graph", ".txt"})
    if (path.ends_with(ending) && path.size() > ending.size() && path[path.size() - ending.size() - 1] != '/')
      return path.substr(0, path.size() - ending.size()) + ".safetensors";
  return path + ".safetensors";
}
}  // namespace

void save_graph(const std::string& path, const ExportedGraph& graph, Loc loc) {
  const std::string text = path.ends_with(".json") ? graph.json() : graph.text();
  // The text is on its way to the disk before the weights get their name.
  NewFile file("save_graph", path.c_str(), loc);
  file.write(text);
  if (!graph.tensors().empty()) io::save(tensors_path(path), graph.tensors(), loc);
  file.finish();
}

ExportedGraph load_graph(const std::string& path, Loc loc) {
  const auto file = MappedFile::open("load_graph", path.c_str(), loc);
  std::map<std::string, Tensor> tensors;
  const std::string beside = tensors_path(path);
  if (access(beside.c_str(), F_OK) == 0)
    for (io::NamedTensor& each : io::load_tensors(beside, loc)) tensors.emplace(each.name, each.value);
  try {
    return import_graph({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, std::move(tensors),
                        loc);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {  // import_graph knows of no file
    std::string why = error.what();
    const std::string line = ", at " + to_string(loc);
    if (why.ends_with(line)) why.resize(why.size() - line.size());
    fail("load_graph", loc, path, ": ", why);
  }
}

}  // namespace weft
