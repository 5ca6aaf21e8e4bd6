#include "ir/graph_json.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/dim_expression.hpp"
#include "base/fail.hpp"
#include "ir/composites.hpp"
#include "ir/offload_mark.hpp"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr int most_levels = 64;  // of bodies in each other
constexpr const char* unnamed = "value";

template <class T>
const T& at(const void* place) {
  return *static_cast<const T*>(place);
}
std::string text_of(double number) {
  char buffer[40];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

// ---- writing --------------------------------------------------------------------------------------------------------

Json size_json(Dim size) {
  const bool plain = size.is_constant() && dims::to_string(size) == std::to_string(size.constant());
  return plain ? Json(size.constant()) : Json(dims::to_string(size));
}
// Numbers that JSON has not are text, as to_text() writes them.
Json number_json(double number) {
  if (std::isfinite(number)) return number;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(number);
  if (std::isinf(number) || (bits & ~(1ull << 63)) == 0x7ff8000000000000) return text_of(number);
  char buffer[24];
  std::snprintf(buffer, sizeof buffer, "0x%016llx", static_cast<unsigned long long>(bits));
  return buffer;
}
template <class T, class Item>
Json list_json(const T& list, Item item) {
  Json all = Json::array();
  for (const auto& each : list) all.push_back(item(each));
  return all;
}
Json field_json(const Field& field, const void* data, DType dtype) {
  const void* const place = field.place(data);
  switch (field.kind) {
    case FieldKind::integer: return at<std::int64_t>(place);
    case FieldKind::number:
      return is_floating(dtype) ? number_json(std::bit_cast<double>(at<std::int64_t>(place)))
                                : Json(at<std::int64_t>(place));
    case FieldKind::real: return number_json(at<double>(place));
    case FieldKind::boolean: return at<bool>(place);
    case FieldKind::axis: return at<std::uint8_t>(place);
    case FieldKind::dtype: return info(at<DType>(place)).name;
    case FieldKind::size: return size_json(at<Dim>(place));
    case FieldKind::text: return interned_text(at<InternedText>(place).id);
    case FieldKind::axes: return list_json(at<AxisList>(place), [](std::uint8_t axis) { return axis; });
    case FieldKind::sizes: return list_json(at<List<Dim>>(place), size_json);
    case FieldKind::integers: return list_json(at<List<std::int64_t>>(place), [](std::int64_t i) { return i; });
    case FieldKind::axis_set: {
      Json axes = Json::array();
      for (int i = 0; i < max_rank; ++i)
        if (at<AxisSet>(place)[i]) axes.push_back(i);
      return axes;
    }
  }
  return {};
}

std::string value_text(const Graph& graph, const Tensor& value) {
  std::string text = "%" + std::to_string(graph.number(value));
  if (value.output()) text += "." + std::to_string(value.output());
  return text;
}
Json values_json(const Graph& graph, std::span<const Tensor> values) {
  Json all = Json::array();
  for (const Tensor& value : values) all.push_back(value_text(graph, value));
  return all;
}

Json node_json(const Graph& graph, const Node& node) {
  Json made;
  made["op"] = info(node.op).name;
  made["types"] = Json::array({to_string(node.type)});
  for (const Type& type : node.more_types()) made["types"].push_back(to_string(type));
  made["operands"] = values_json(graph, node.inputs());
  const Attributes& attributes = node.attributes();
  if (!attributes.type().fields.empty()) {
    Json& fields = made["attributes"] = Json::object();
    for (const Field& field : attributes.type().fields) {
      Json value = field_json(field, attributes.data(), node.type.dtype);
      if (!*field.name || value != field_json(field, attributes.type().defaults, node.type.dtype))
        fields[*field.name ? field.name : unnamed] = std::move(value);
    }
  }
  if (node.recomputation) made["recomputation"] = node.recomputation;
  if (is_offloaded(node)) made["offloaded"] = true;
  if (const std::string line = to_string(node.loc); !line.empty()) made["line"] = line;
  if (node.scope) made["scope"] = interned_text(node.scope);
  for (const auto& body : node.bodies()) made["bodies"].push_back(json_of(*body));
  return made;
}

// ---- reading --------------------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(const char* operation, Loc loc) : operation_(operation), loc_(loc) {}

  void graph(const Json& json, const std::string& margin, int level) {
    if (level > most_levels) refuse("bodies lie in each other deeper than ", most_levels);
    for (const Json& each : list(json, "symbols")) symbol(each, margin);
    for (const Json& each : list(json, "decided")) condition(each, margin);
    std::size_t number = 0;
    for (const Json& each : list(json, "nodes")) node(each, number++, margin, level);
    text += margin + "return";
    values(json, "results", " ");
    if (!list(json, "effects").empty()) text += "  effects";
    values(json, "effects", " ");
    text += "\n";
  }
  std::string text;

 private:
  template <class... Words>
  [[noreturn]] void refuse(const Words&... words) const {
    fail(operation_, loc_, "the JSON is no graph: ", words...);
  }
  const Json& list(const Json& json, const char* name) const {
    if (!json.is_object()) refuse("an object is expected");
    const auto found = json.find(name);
    if (found == json.end()) return none_;
    if (!found->is_array()) refuse("'", name, "' is no list");
    return *found;
  }
  // Text of one line whose letters are those of types, values, sizes and names.
  std::string plain(const Json& json, const char* what) const {
    if (!json.is_string()) refuse(what, " is no text");
    const std::string& text = json.get_ref<const std::string&>();
    for (const char c : text)
      if (!std::isalnum(static_cast<unsigned char>(c)) &&
          std::string_view(" []().,_+-*/%^'@:<=").find(c) == std::string_view::npos)
        refuse(what, " has a letter that none has");
    return text;
  }
  std::string one_line(const Json& json, const char* what) const {
    if (!json.is_string()) refuse(what, " is no text");
    std::string text = json.get<std::string>();
    if (text.find('\n') != text.npos) refuse(what, " has more than one line");
    return text;
  }
  std::string integer(const Json& json, const char* what) const {
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) refuse(what, " is too large");
    if (!json.is_number_integer()) refuse(what, " is no integer");
    return std::to_string(json.get<std::int64_t>());
  }
  std::string size(const Json& json) const {
    return json.is_number() ? dims::to_string(Dim(std::stoll(integer(json, "a size")))) : plain(json, "a size");
  }
  std::string quoted(const Json& json) const {
    if (!json.is_string()) refuse("an attribute is no text");
    std::string result = "\"";
    for (const char c : json.get_ref<const std::string&>()) {
      if (c == '"' || c == '\\') result += '\\';
      result += c == '\n' ? "\\n" : std::string(1, c);
    }
    return result + "\"";
  }
  void values(const Json& json, const char* name, const char* before) {
    for (const Json& each : list(json, name)) text += before + plain(each, "a value");
  }
  bool flag(const Json& json, const char* name) const {
    const auto found = json.find(name);
    if (found == json.end()) return false;
    if (!found->is_boolean()) refuse("'", name, "' is no bool");
    return found->get<bool>();
  }
  const Json& member(const Json& json, const char* name, const char* of) const {
    if (!json.is_object()) refuse("a ", of, " is no object");
    const auto found = json.find(name);
    if (found == json.end()) refuse("a ", of, " has no '", name, "'");
    return *found;
  }
  void comment(const Json& json) {
    std::string words;
    for (const char* name : {"line", "scope"})
      if (json.contains(name)) words += " " + one_line(json[name], name);
    if (!words.empty()) text += "  #" + words;
    text += "\n";
  }

  void symbol(const Json& json, const std::string& margin) {
    text += concat_text(margin, plain(member(json, "name", "symbol"), "a symbol"), " = size ",
                        integer(member(json, "example", "symbol"), "an example"), ", at least ",
                        integer(member(json, "least", "symbol"), "a bound"));
    if (json.contains("greatest")) text += ", at most " + integer(json["greatest"], "a bound");
    text += "\n";
  }
  void condition(const Json& json, const std::string& margin) {
    text += margin + "decided " + plain(member(json, "that", "decision"), "a decision");
    if (flag(json, "after")) text += "  after";
    comment(json);
  }

  std::string attribute(FieldKind kind, const Json& json) const {
    switch (kind) {
      case FieldKind::text: return quoted(json);
      case FieldKind::boolean:
        if (!json.is_boolean()) refuse("an attribute is no bool");
        return json.get<bool>() ? "true" : "false";
      case FieldKind::number:
      case FieldKind::real:
        if (json.is_number_float()) return text_of(json.get<double>());
        return json.is_string() ? plain(json, "a number") : integer(json, "a number");
      case FieldKind::size: return size(json);
      case FieldKind::dtype: return plain(json, "a dtype");
      case FieldKind::integer:
      case FieldKind::axis: return integer(json, "an attribute");
      case FieldKind::axes:
      case FieldKind::axis_set:
      case FieldKind::sizes:
      case FieldKind::integers: break;
    }
    if (!json.is_array()) refuse("an attribute is no list");
    std::string result;
    for (const Json& item : json)
      result += (result.empty() ? "" : ",") +
                (kind == FieldKind::sizes ? size(item) : integer(item, "an item of an attribute"));
    return "[" + result + "]";
  }
  // Of a call its name says what the others are.
  const AttributeType& type_of(Op op, const Json& fields) const {
    if (op != Op::call) return *info(op).attributes;
    const auto found = fields.find(unnamed);
    if (found == fields.end() || !found->is_string()) refuse("a call has no name");
    return composite_attributes(found->get_ref<const std::string&>());
  }
  void attributes(Op op, const Json& fields, bool has_operands) {
    if (!fields.is_object()) refuse("'attributes' is no object");
    const AttributeType& type = type_of(op, fields);
    std::size_t known = 0;
    std::string all;
    for (const Field& field : type.fields) {
      const auto found = fields.find(*field.name ? field.name : unnamed);
      if (found == fields.end()) continue;
      ++known;
      all += (all.empty() ? "" : ", ") + std::string(field.name) + (*field.name ? " " : "") +
             attribute(field.kind, *found);
    }
    if (known != fields.size()) {
      for (const auto& [name, value] : fields.items())
        if (std::none_of(type.fields.begin(), type.fields.end(),
                         [&](const Field& field) { return name == (*field.name ? field.name : unnamed); }))
          refuse("'", info(op).name, "' has no attribute '", name, "' in operation set of this version");
    }
    if (!all.empty()) text += (has_operands ? "; " : "") + all;
  }
  void node(const Json& json, std::size_t number, const std::string& margin, int level) {
    const std::string name = plain(member(json, "op", "node"), "an operation");
    int op = 0;
    while (op < op_count && name != info(static_cast<Op>(op)).name) ++op;
    if (op == op_count) refuse("node ", number, ": there is no operation '", name, "' in the sets that are known");
    text += margin + "%" + std::to_string(number) + " ";
    const char* before = "";
    for (const Json& type : list(json, "types")) {
      text += before + plain(type, "a type");
      before = ", ";
    }
    text += " = " + name + "(";
    before = "";
    const Json& operands = list(json, "operands");
    for (const Json& each : operands) {
      text += before + plain(each, "an operand");
      before = ", ";
    }
    if (json.contains("attributes")) attributes(static_cast<Op>(op), json["attributes"], !operands.empty());
    text += ")";
    if (json.contains("recomputation")) text += " recomputation " + integer(json["recomputation"], "a recomputation");
    if (flag(json, "offloaded")) text += " offloaded";
    comment(json);
    for (const Json& body : list(json, "bodies")) graph(body, margin + "  ", level + 1);
  }

  const char* operation_;
  Loc loc_;
  Json none_ = Json::array();
};

}  // namespace

Json json_of(const Graph& graph) {
  Json made;
  for (std::size_t i = 0; i < graph.symbols.size(); ++i) {
    const DimSymbol& symbol = graph.symbols[i];
    Json each{{"name", concat_text("s", i)}, {"example", symbol.hint}, {"least", symbol.lower}};
    if (symbol.upper != INT64_MAX) each["greatest"] = symbol.upper;
    made["symbols"].push_back(std::move(each));
  }
  for (const DimCondition& condition : graph.conditions) {
    Json each{{"that", concat_text(condition.holds ? "" : "not ", dims::to_string(condition.left),
                                   condition.kind == DimCondition::Kind::less ? " < " : " == ",
                                   dims::to_string(condition.right))}};
    if (condition.after) each["after"] = true;
    if (const std::string line = to_string(condition.loc); !line.empty()) each["line"] = line;
    made["decided"].push_back(std::move(each));
  }
  made["nodes"] = Json::array();
  for (const Tensor& value : graph.nodes) made["nodes"].push_back(node_json(graph, *value.node()));
  made["results"] = values_json(graph, graph.outputs);
  if (!graph.effects.empty()) made["effects"] = values_json(graph, graph.effects);
  return made;
}

std::string text_of_json(const Json& json, const char* operation, Loc loc) {
  Reader reader(operation, loc);
  reader.graph(json, "", 0);
  return std::move(reader.text);
}

}  // namespace weft
