// A graph as text, and values as a debugger shows them (tools/debug).
#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/storage.hpp"
#include "ir/callee.hpp"
#include "ir/graph.hpp"
#include "ir/offload_mark.hpp"

namespace weft {

namespace {

std::string value_text(const Graph& graph, const Tensor& value) {
  std::string text = "%" + std::to_string(graph.number(value));
  if (value.output()) text += "." + std::to_string(value.output());
  return text;
}

std::string line(const Graph& graph, const Node& node) {
  std::string text = "%" + std::to_string(graph.number(node)) + " " + to_string(node.type);
  for (const Type& more : node.more_types()) text += ", " + to_string(more);
  text += std::string(" = ") + info(node.op).name + "(";
  bool first = true;
  for (const Tensor& operand : node.inputs()) {
    if (!first) text += ", ";
    first = false;
    text += value_text(graph, operand);
  }
  if (std::string attributes = node.attributes().to_text(node.type.dtype); !attributes.empty())
    text += (first ? "" : "; ") + attributes;
  text += ")";
  if (node.recomputation) text += " recomputation " + std::to_string(node.recomputation);
  if (is_offloaded(node)) text += " offloaded";
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
  for (const Tensor& output : graph.outputs) text += " " + value_text(graph, output);
  if (!graph.effects.empty()) text += "  effects";
  for (const Tensor& effect : graph.effects) text += " " + value_text(graph, effect);
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
    text += line(graph, *value.node()) + "\n";
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
    text += with_comment(line(graph, node), where) + "\n";
    for (const auto& body : node.bodies()) text += indent(to_text(*body));
  }
  return text + results_line(graph);
}

// ---- for debuggers --------------------------------------------------------------------------------------------------

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
#define WEFT_DTYPE(name, text_of, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                           \
    append_elements<type>(text, storage->data, count);                                        \
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
