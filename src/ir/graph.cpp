#include "ir/graph.hpp"

#include <algorithm>
#include <range/v3/view/concat.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/storage.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "ir/factorization.hpp"
#include "ir/infer.hpp"

namespace weft {

bool is_effect(const Node& node) {
  return is_effect(node.op) ||
         std::ranges::any_of(node.bodies(), [](const auto& body) { return !body->effects.empty(); });
}

Graph make_graph(std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<Tensor> effects) {
  Graph graph;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> stack;
  auto visit = [&](const Tensor& value) {
    if (seen.insert(value.node()).second) stack.push_back(value.node());
  };
  for (const auto* roots : {&inputs, &outputs, &effects})
    for (const Tensor& root : *roots) visit(root);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    graph.nodes.emplace_back(node);
    for (const Tensor& operand : node->inputs()) visit(operand);
  }
  std::sort(graph.nodes.begin(), graph.nodes.end(),
            [](const Tensor& a, const Tensor& b) { return a.node()->sequence < b.node()->sequence; });
  number_nodes(graph);
  graph.inputs = std::move(inputs);
  graph.outputs = std::move(outputs);
  graph.effects = std::move(effects);
  return graph;
}

void number_nodes(const Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].node()->index = static_cast<std::uint32_t>(i);
}

Graph without_data(const Graph& graph) {
  std::unordered_map<const Node*, Node*> copies;
  const auto mapped = [&](std::span<const Tensor> values) {
    std::vector<Tensor> all;
    for (const Tensor& value : values) all.emplace_back(copies.at(value.node()), value.output());
    return all;
  };
  Graph copy;
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    const Tensor made = Builder::copy(node, mapped(node.inputs()));
    made.node()->sequence = node.sequence;
    if (Storage*& storage = made.node()->storage) release(std::exchange(storage, nullptr));
    copies[&node] = made.node();
    copy.nodes.push_back(made);
  }
  copy.inputs = mapped(graph.inputs);
  copy.outputs = mapped(graph.outputs);
  copy.effects = mapped(graph.effects);
  copy.symbols = graph.symbols;
  copy.conditions = graph.conditions;
  return copy;
}

Graph rewrite(const Graph& graph, const Replace& replace) {
  std::vector<Tensor> mapped, operands, effects;  // `mapped`: the results of all nodes in turn
  std::vector<std::size_t> place(graph.nodes.size());
  mapped.reserve(graph.nodes.size());
  const auto map = [&](const Tensor& value) -> const Tensor& {
    return mapped[place[value.node()->index] + value.output()];
  };
  std::unordered_set<const Node*> listed;
  const auto add_effect = [&](const Tensor& effect) {
    if (listed.insert(effect.node()).second) effects.push_back(effect);
  };
  bool effects_move = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    operands.clear();
    bool changed = false;
    for (const Tensor& operand : node.inputs()) {
      operands.push_back(map(operand));
      changed |= !operands.back().same(operand);
    }
    Rewritten replaced = replace(node, operands);
    const bool stays = !replaced.result.defined() && replaced.results.empty(), effect = is_effect(node);
    // Behind a new node all later effects are new too: an old one would stand before it.
    if (effect) changed |= effects_move, effects_move |= changed || !stays;
    place[i] = mapped.size();
    if (!replaced.results.empty()) {
      WEFT_CHECK(replaced.results.size() == node.output_count, "a replacement has as many results as its node");
      std::ranges::move(replaced.results, std::back_inserter(mapped));
    } else {
      if (stays) replaced.result = changed ? Builder::copy(node, operands) : graph.nodes[i];
      mapped.push_back(replaced.result);
      for (unsigned output = 1; output < node.output_count; ++output)
        mapped.emplace_back(replaced.result.node(), output);
    }
    if (!effect) continue;
    for (const Tensor& each : replaced.effects) add_effect(each);
    const Tensor& first = mapped[place[i]];
    if (replaced.effects.empty() && first.defined() && is_effect(*first.node())) add_effect(first);
  }
  std::vector<Tensor> inputs, outputs;
  for (const Tensor& input : graph.inputs) inputs.push_back(map(input));
  for (const Tensor& output : graph.outputs) outputs.push_back(map(output));
  Graph result = make_graph(std::move(inputs), std::move(outputs), std::move(effects));
  result.symbols = graph.symbols;
  result.conditions = graph.conditions;
  return result;
}

DecidedSizes::DecidedSizes(const Graph& graph)
    : environment_{graph.symbols, graph.conditions},
      decided_(graph.conditions.size()),
      saved_(std::exchange(DimEnvironment::current(), &environment_)) {}
DecidedSizes::~DecidedSizes() { DimEnvironment::current() = saved_; }
void DecidedSizes::close() const {
  if (environment_.conditions.size() == decided_) return;
  const DimCondition& condition = environment_.conditions[decided_];
  WEFT_CHECK(false, "a pass compared sizes that nothing guards: ", dims::to_string(condition.left), " and ",
             dims::to_string(condition.right));
}

namespace {

bool fits(const Type& a, const Type& b) {
  bool same = a.dtype == b.dtype && a.device == b.device && a.shape.rank() == b.shape.rank();
  for (int d = 0; same && d < a.shape.rank(); ++d) same = a.shape[d] == b.shape[d];
  return same;
}
std::vector<Type> types_of(std::span<const Tensor> values) {
  std::vector<Type> types;
  for (const Tensor& value : values) types.push_back(type_of(value));
  return types;
}
// What is sliced or stacked along axis 0, without it.
Type slice_of(Type type, Dim length, const std::string& name) {
  WEFT_CHECK(type.shape.rank() > 0 && type.shape[0] == length, name, ": ", to_string(type), " has no ",
             dims::to_string(length), " slices");
  Shape shape;
  for (int i = 1; i < type.shape.rank(); ++i) shape.push_back(type.shape[i]);
  type.shape = shape;
  return type;
}

void verify_body(const Graph& body, std::span<const Type> operands, std::span<const Type> results,
                 const std::string& name) {
  WEFT_CHECK(body.inputs.size() == operands.size() && body.outputs.size() == results.size(), name, ": its body takes ",
             body.inputs.size(), " and gives ", body.outputs.size());
  for (std::size_t k = 0; k < operands.size(); ++k)
    WEFT_CHECK(fits(operands[k], type_of(body.inputs[k])), name, ": operand ", k, " is ", to_string(operands[k]),
               ", its body takes ", to_string(type_of(body.inputs[k])));
  for (std::size_t k = 0; k < results.size(); ++k)
    WEFT_CHECK(fits(results[k], type_of(body.outputs[k])), name, ": result ", k, " is ", to_string(results[k]),
               ", its body gives ", to_string(type_of(body.outputs[k])));
}

// A region's bodies against its operands and results.
void verify_region(const Node& node, const std::string& name) {
  std::vector<Type> operands = types_of(node.inputs()), results{node.type};
  results.insert(results.end(), node.more_types().begin(), node.more_types().end());
  const std::size_t bodies = node.op == Op::call || node.op == Op::scan ? 1 : 2;
  WEFT_CHECK(node.bodies().size() == bodies, name, " has ", node.bodies().size(), " bodies");
  if (node.op == Op::scan) {
    const auto& scan = node.attributes<Scan>();
    const auto carries = static_cast<std::size_t>(scan.carries), scanned = static_cast<std::size_t>(scan.scanned);
    WEFT_CHECK(carries + scanned <= operands.size() && carries <= results.size(), name, " has too few operands");
    for (std::size_t i = 0; i < scanned; ++i)
      operands[carries + i] = slice_of(operands[carries + i], scan.length, name);
    for (std::size_t i = carries; i < results.size(); ++i) results[i] = slice_of(results[i], scan.length, name);
  }
  if (node.op == Op::cond) operands.erase(operands.begin());
  if (node.op == Op::while_loop) {
    WEFT_CHECK(node.attributes<While>().carries == node.output_count, name, " has ", node.output_count, " results");
    WEFT_CHECK(node.bodies()[0]->outputs.size() == 1 && type_of(node.bodies()[0]->outputs[0]).dtype == DType::boolean,
               name, ": its condition is no bool");
    const Type given[] = {type_of(node.bodies()[0]->outputs[0])};
    verify_body(*node.bodies()[0], operands, given, name);
    return verify_body(*node.bodies()[1], operands, results, name);
  }
  for (const auto& body : node.bodies()) verify_body(*body, operands, results, name);
}

void verify_nodes(const Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    const OpInfo& row = info(node.op);
    WEFT_CHECK(node.index == i, "node ", i, " (", row.name, ") has index ", node.index);
    for (const Tensor& operand : node.inputs()) {
      WEFT_CHECK(operand.defined(), "undefined operand of %", i, " ", row.name);
      WEFT_CHECK(operand.node()->index < i && graph.nodes[operand.node()->index].node() == operand.node(),
                 "operand of %", i, " ", row.name, " stands behind its user or in another graph");
      WEFT_CHECK(operand.output() < operand.node()->output_count, "%", i, " ", row.name,
                 " reads a result that does not exist");
    }
    WEFT_CHECK(node.more_types().size() + 1 == node.output_count, "%", i, " ", row.name, " result types");
    Type inferred = infer(node.op, node.inputs(), node.attributes(), node.type, node.loc);
    bool agrees = inferred.dtype == node.type.dtype && inferred.shape.rank() == node.type.shape.rank() &&
                  inferred.device == node.type.device;
    for (int d = 0; agrees && d < inferred.shape.rank(); ++d) agrees = inferred.shape[d] == node.type.shape[d];
    WEFT_CHECK(agrees, "%", i, " ", row.name, " has type ", to_string(node.type), ", inferred ", to_string(inferred));
    if (row.kind == OpKind::factorization)
      WEFT_CHECK(infer_factorization(node.op, node.inputs(), node.attributes(), node.loc).size() == node.output_count,
                 "%", i, " ", row.name, " has ", node.output_count, " results");
    if (node.op == Op::call)  // a scalar expression has the name of the function around it, and nothing else
      WEFT_CHECK(&node.attributes().type() == &composite_attributes(name_of(node)) ||
                     &node.attributes().type() == &attribute_type<Called>,
                 "%", i, " ", name_of(node), " has the attributes of another composite");
    if (node.op == Op::constant && !is_floating(node.type.dtype)) {
      const auto [least, greatest] = integer_range(node.type.dtype);
      const std::int64_t number = node.attributes<Constant>().as_integer();
      WEFT_CHECK(least <= number && number <= greatest, "%", i, " constant ", number, " is no ",
                 info(node.type.dtype).name);
    }
    if (node.op == Op::all_reduce_wait) {
      const Node& start = *node.input(0).node();
      WEFT_CHECK(start.op == Op::all_reduce_start && start.attributes() == node.attributes(), "%", i, " waits for %",
                 start.index, ", which is no all_reduce_start of its group");
    }
    for (const auto& body : node.bodies()) body->symbols.empty() ? verify_nodes(*body) : verify(*body);
    if (!node.bodies().empty()) verify_region(node, concat_text("%", i, " ", row.name));
  }
  std::vector<bool> needed(graph.nodes.size(), false);
  for (const Tensor& root : ranges::views::concat(graph.inputs, graph.outputs, graph.effects)) {
    const std::uint32_t index = root.node()->index;
    WEFT_CHECK(index < needed.size() && graph.nodes[index].node() == root.node(), info(root.node()->op).name,
               " is an input, output or effect of the graph and not among its nodes");
    needed[index] = true;
  }
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i].node();
    WEFT_CHECK(needed[i], "%", i, " ", info(node.op).name, " reaches no output and no effect");
    for (const Tensor& operand : node.inputs()) needed[operand.node()->index] = true;
  }
  std::vector<std::uint32_t> effects, listed;
  for (const Tensor& value : graph.nodes)
    if (is_effect(*value.node())) effects.push_back(value.node()->index);
  for (const Tensor& effect : graph.effects)
    if (is_effect(*effect.node())) listed.push_back(effect.node()->index);
  for (std::size_t i = 0; i < std::max(effects.size(), listed.size()); ++i)
    WEFT_CHECK(i < listed.size() && i < effects.size() && listed[i] == effects[i], "effect %",
               i < effects.size() ? effects[i] : listed[i], " is not listed, or not in the order of the nodes");
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    WEFT_CHECK(graph.inputs[i].node()->op == Op::input &&
               graph.inputs[i].node()->attributes<Parameter>().slot == static_cast<std::int64_t>(i));
}

}  // namespace

void verify(const Graph& graph) {
  // Sizes that the trace decided to be equal may be spelled differently. Those of a body that has none of its own are
  // the trace's too.
  DecidedSizes sizes(graph);
  verify_nodes(graph);
}

// ---- text ---------------------------------------------------------------------------------------------------------

namespace {

std::string value_text(const Tensor& value) {
  std::string text = "%" + std::to_string(value.node()->index);
  if (value.output()) text += "." + std::to_string(value.output());
  return text;
}

std::string line(const Node& node) {
  std::string text = "%" + std::to_string(node.index) + " " + to_string(node.type);
  for (const Type& more : node.more_types()) text += ", " + to_string(more);
  text += std::string(" = ") + info(node.op).name + "(";
  bool first = true;
  for (const Tensor& operand : node.inputs()) {
    if (!first) text += ", ";
    first = false;
    text += value_text(operand);
  }
  if (std::string attributes = node.attributes().to_text(node.type.dtype); !attributes.empty())
    text += (first ? "" : "; ") + attributes;
  text += ")";
  if (node.recomputation) text += " recomputation " + std::to_string(node.recomputation);
  return text;
}

std::string with_comment(std::string row, const std::string& comment) {
  if (!comment.empty()) row += std::string(row.size() < 60 ? 60 - row.size() : 1, ' ') + "# " + comment;
  return row;
}

// What the trace knows about sizes: `s0 = size 4, at least 2` and `decided not s0 == 3  # model.cpp:41`.
std::string sizes_text(const Graph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.symbols.size(); ++i) {
    const DimSymbol& symbol = graph.symbols[i];
    text += concat_text("s", i, " = size ", symbol.hint, ", at least ", symbol.lower);
    if (symbol.upper != INT64_MAX) text += concat_text(", at most ", symbol.upper);
    text += "\n";
  }
  for (const DimCondition& condition : graph.conditions) {
    const std::string row =
        concat_text("decided ", condition.holds ? "" : "not ", dims::to_string(condition.left),
                    condition.kind == DimCondition::Kind::less ? " < " : " == ", dims::to_string(condition.right),
                    condition.after ? "  after" : "");
    text += with_comment(row, to_string(condition.loc)) + "\n";
  }
  return text;
}

std::string results_line(const Graph& graph) {
  std::string text = "return";
  for (const Tensor& output : graph.outputs) text += " " + value_text(output);
  if (!graph.effects.empty()) text += "  effects";
  for (const Tensor& effect : graph.effects) text += " " + value_text(effect);
  return text + "\n";
}

std::string indent(const std::string& text) {
  std::string result = "  ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) result += "  ";
  }
  return result;
}

}  // namespace

std::string structure_text(const Graph& graph) {
  std::string text;
  for (const Tensor& value : graph.nodes) {
    text += line(*value.node()) + "\n";
    for (const auto& body : value.node()->bodies()) text += indent(structure_text(*body));
  }
  return text + results_line(graph);
}

std::string to_text(const Graph& graph) {
  std::string text = sizes_text(graph);
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    std::string where = to_string(node.loc);
    if (node.scope) where += (where.empty() ? "" : " ") + interned_text(node.scope);
    text += with_comment(line(node), where) + "\n";
    for (const auto& body : node.bodies()) text += indent(to_text(*body));
  }
  return text + results_line(graph);
}

namespace {

std::string dot_label(const Node& node) {
  std::string text = info(node.op).name, label;
  if (std::string attributes = node.attributes().to_text(node.type.dtype); !attributes.empty())
    text += " " + attributes;
  for (char c : text) label.append(c == '"' || c == '\\' ? "\\" : "") += c;
  return label + "\\n" + to_string(node.type);
}

// A body is a cluster: its inputs hang on the node's operands, and the node on its outputs.
void append_dot(std::string& text, const Graph& graph, const std::string& prefix, const std::string& margin) {
  auto name = [](const std::string& of, const Tensor& value) { return of + std::to_string(value.node()->index); };
  auto edge = [&](const std::string& from, const std::string& to, const char* style) {
    text += margin + from + " -> " + to + style + ";\n";
  };
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    const std::string here = name(prefix, value);
    std::string cluster = here;
    text += margin + here + " [label=\"" + dot_label(node) + "\"];\n";
    for (const Tensor& operand : node.inputs()) edge(name(prefix, operand), here, "");
    for (const auto& body : node.bodies()) {
      const std::string inside = cluster + "_";
      text += margin + "subgraph cluster_" + cluster + " {\n";
      append_dot(text, *body, inside, margin + "  ");
      text += margin + "}\n";
      for (std::size_t i = 0; i < body->inputs.size(); ++i)
        edge(name(prefix, node.input(i)), name(inside, body->inputs[i]), " [style=dashed]");
      for (const Tensor& output : body->outputs) edge(name(inside, output), here, " [style=dashed]");
      cluster += "_";
    }
  }
}

}  // namespace

std::string to_dot(const Graph& graph) {
  std::string text = "digraph weft {\n  rankdir=TB; node [shape=box, fontname=monospace];\n";
  append_dot(text, graph, "n", "  ");
  return text + "}\n";
}

// ---- for debuggers (tools/debug)
// --------------------------------------------------------------------------------------

namespace {

template <class T>
auto shown_as(T element) {
  if constexpr (!std::is_arithmetic_v<T>)
    return static_cast<float>(element);
  else if constexpr (std::is_floating_point_v<T>)
    return element;
  else
    return static_cast<std::int64_t>(element);
}
template <class T>
void append_elements(std::string& text, const void* data, std::int64_t count) {
  constexpr std::int64_t shown = 8;
  for (std::int64_t i = 0; i < std::min(count, shown); ++i)
    text += concat_text(i == 0 ? "" : ", ", shown_as(static_cast<const T*>(data)[i]));
  if (count > shown) text += ", ...";
}

// What lies on a device is not read, nor what has strides.
std::string contents(const Tensor& value) {
  const Node& node = *value.node();
  const Storage* const storage = value.output() == 0 ? node.storage : nullptr;
  if (!storage)
    return node.op == Op::data || value.output() > 0 ? "" : concat_text(" = ", info(node.op).name, " (not computed)");
  if (storage->device.type != Device::Type::cpu || node.layout || !node.type.shape.element_count().is_constant())
    return "";
  const std::int64_t count = node.type.shape.element_count().constant();
  std::string text = " {";
  switch (node.type.dtype) {
#define WEFT_DTYPE(name, text_of, bits, packing, kind, computed, accumulated, type) \
  case DType::name:                                                                 \
    append_elements<type>(text, storage->data, count);                              \
    break;
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  return text + "}";
}

const char* kept(std::string text) {
  static constinit Lazy<std::string> last;
  return (last.get() = std::move(text)).c_str();
}

}  // namespace
}  // namespace weft

// Texts of a Tensor and of a Dim by their words, until the next call. Called by a debugger, while no thread runs.
extern "C" __attribute__((used)) const char* weft_debug_tensor(const weft::Tensor* value) {
  using namespace weft;
  if (!value->defined()) return "undefined";
  std::string text = to_string(type_of(*value)) + contents(*value);
  if (const std::string where = to_string(value->node()->loc); !where.empty()) text += " at " + where;
  return kept(std::move(text));
}
extern "C" __attribute__((used)) const char* weft_debug_dim(const weft::Dim* dim) {
  return weft::kept(weft::dims::to_string(*dim));
}
