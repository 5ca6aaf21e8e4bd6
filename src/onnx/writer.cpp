#include "onnx/writer.hpp"

#include "base/fail.hpp"
#include "io/file_values.hpp"
#include "record/record.hpp"

namespace weft::onnx {

AttributeData attribute(const char* name, std::int64_t value) {
  AttributeData made{name, AttributeData::Kind::integer};
  made.integer = value;
  return made;
}
AttributeData attribute(const char* name, double value) {
  AttributeData made{name, AttributeData::Kind::number};
  made.number = value;
  return made;
}
AttributeData attribute(const char* name, const char* value) {
  AttributeData made{name, AttributeData::Kind::text};
  made.text = value;
  return made;
}
AttributeData attribute(const char* name, Integers values) {
  AttributeData made{name, AttributeData::Kind::integers};
  made.integers = std::move(values);
  return made;
}
AttributeData attribute(const char* name, GraphData graph) {
  AttributeData made{name, AttributeData::Kind::graph};
  made.graph = std::make_shared<GraphData>(std::move(graph));
  return made;
}

std::string Writer::fresh() {
  if (outer_) return outer_->fresh();
  std::string name;
  do name = concat_text("v", ++count_);
  while (taken.contains(name));
  return name;
}
std::string Writer::name(const Tensor& value) const {
  const auto found = names_.find(value.word());
  if (found != names_.end()) return found->second;
  WEFT_CHECK(outer_, "a value that nothing gives");
  return outer_->name(value);
}
std::string Writer::emit(const char* operation, std::vector<std::string> inputs, AttributeList attributes) {
  std::string result = fresh();
  made.nodes.push_back({"", operation, "", std::move(inputs), {result}, std::move(attributes)});
  return result;
}
std::string Writer::integers(const Integers& values) {
  TensorData data{fresh(), 7, {static_cast<std::int64_t>(values.size())}};
  data.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 8);
  made.initializers.push_back(data);
  return made.initializers.back().name;
}
std::string Writer::number(DType dtype, double value) { return scalar(full({}, value, {dtype})); }
std::string Writer::integer(DType dtype, std::int64_t value) { return scalar(full({}, value, {dtype})); }
std::string Writer::scalar(const Tensor& value) {
  const io::HostElements elements(value, purpose_.loc);
  TensorData data{fresh(), element_type(value.dtype())};
  data.bytes.assign(elements.bytes().begin(), elements.bytes().end());
  made.initializers.push_back(std::move(data));
  return made.initializers.back().name;
}
std::string Writer::cast(const std::string& value, DType to) {
  return emit("Cast", {value}, {attribute("to", element_type(to))});
}
void Writer::nodes_of(const Graph& graph) {
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    if (node.op == Op::input) continue;
    write(node);
  }
}
void Writer::outputs_of(std::span<const Tensor> values, std::span<const std::string> wanted) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    made.nodes.push_back({"", "Identity", "", {name(values[i])}, {wanted[i]}});
    made.outputs.push_back(port(wanted[i], type_of(values[i])));
  }
}
ValueData Writer::port(const std::string& name, const Type& type) {
  ValueData made{name, element_type(type.dtype), true};
  for (Dim size : type.shape)
    made.axes.push_back(size.is_constant() ? AxisData{size.constant(), ""} : AxisData{-1, dims::to_string(size)});
  return made;
}

// ---- sizes

std::string Writer::size(Dim dim) {
  if (dim.is_constant()) return integers({dim.constant()});
  const auto known = sizes_.find(dim.word());
  if (known != sizes_.end()) return known->second;
  std::string sum;
  for (const DimTerm& term : dims::terms(dim)) {
    std::string product;
    for (const DimNode* factor : term.factors) {
      const std::string each = atom(*factor);
      product = product.empty() ? each : emit("Mul", {product, each});
    }
    if (product.empty())
      product = integers({term.coefficient});
    else if (term.coefficient != 1)
      product = emit("Mul", {product, integers({term.coefficient})});
    sum = sum.empty() ? product : emit("Add", {sum, product});
  }
  return sizes_[dim.word()] = sum;
}
std::string Writer::atom(const DimNode& node) {
  if (node.kind == DimKind::floor_divide) {  // Div rounds towards 0, Mod has the divisor's sign
    const std::string left = size(node.left), right = size(node.right);
    if (dims::proves_nonnegative(node.left)) return emit("Div", {left, right});
    return emit("Div", {emit("Sub", {left, emit("Mod", {left, right})}), right});
  }
  if (node.kind == DimKind::modulo) return emit("Mod", {size(node.left), size(node.right)});
  WEFT_CHECK(node.kind == DimKind::symbol, "a size of a kind that no graph has");
  const Dim symbol = dims::symbol(node.number, node.lower.constant());
  for (const Tensor& input : symbols_.inputs)
    for (int axis = 0; axis < shape_of(input).rank(); ++axis)
      if (shape_of(input)[axis].same(symbol))
        return emit("Shape", {name(input)}, {attribute("start", axis), attribute("end", axis + 1)});
  purpose_.refuse({}, "a size depends on values, and is that of no input");
}
std::string Writer::sizes(const Shape& shape) {
  bool known = true;
  for (Dim each : shape) known = known && each.is_constant();
  if (known) {
    Integers all;
    for (Dim each : shape) all.push_back(each.constant());
    return integers(all);
  }
  std::vector<std::string> parts;
  for (Dim each : shape) parts.push_back(size(each));
  return parts.size() == 1 ? parts[0] : emit("Concat", parts, {attribute("axis", 0)});
}
std::string Writer::reshaped(const std::string& value, const Shape& shape) {
  Integers all;
  int symbolic = 0;
  bool empty = false;
  for (Dim each : shape) {
    symbolic += !each.is_constant();
    empty = empty || each.same(Dim(0));
    all.push_back(each.is_constant() ? each.constant() : -1);
  }
  if (symbolic <= 1 && !empty) return emit("Reshape", {value, integers(all)});
  return emit("Reshape", {value, sizes(shape)}, {attribute("allowzero", 1)});
}
std::string Writer::filled(const Type& type, const std::string& value) {
  return type.shape.rank() == 0 ? value : emit("Expand", {value, sizes(type.shape)});
}

}  // namespace weft::onnx
