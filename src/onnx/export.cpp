// Writing a graph as an ONNX model. In: a graph, composites whole. Out: a model of operator set 23. A table of
// pointwise operations, a function for each other primitive, and one for each composite that ONNX has.
#include "onnx/export.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "record/expressions.hpp"
#include "record/record.hpp"

namespace weft::onnx {
namespace {

using Integers = std::vector<std::int64_t>;
constexpr std::int64_t written_set = 23;

// ---- pointwise operations that ONNX has as they are -----------------------------------------------------------------

struct PointwiseName {
  Op op;
  const char* name;
};
constexpr PointwiseName pointwise_names[] = {
    {Op::add, "Add"},
    {Op::sub, "Sub"},
    {Op::mul, "Mul"},
    {Op::div, "Div"},
    {Op::pow, "Pow"},
    {Op::maximum, "Max"},
    {Op::minimum, "Min"},
    {Op::neg, "Neg"},
    {Op::abs, "Abs"},
    {Op::sign, "Sign"},
    {Op::relu, "Relu"},
    {Op::floor, "Floor"},
    {Op::ceil, "Ceil"},
    {Op::round, "Round"},
    {Op::exp, "Exp"},
    {Op::log, "Log"},
    {Op::sqrt, "Sqrt"},
    {Op::reciprocal, "Reciprocal"},
    {Op::sin, "Sin"},
    {Op::cos, "Cos"},
    {Op::tan, "Tan"},
    {Op::asin, "Asin"},
    {Op::acos, "Acos"},
    {Op::atan, "Atan"},
    {Op::sinh, "Sinh"},
    {Op::cosh, "Cosh"},
    {Op::tanh, "Tanh"},
    {Op::asinh, "Asinh"},
    {Op::acosh, "Acosh"},
    {Op::atanh, "Atanh"},
    {Op::erf, "Erf"},
    {Op::sigmoid, "Sigmoid"},
    {Op::equal, "Equal"},
    {Op::less, "Less"},
    {Op::less_equal, "LessOrEqual"},
    {Op::isnan, "IsNaN"},
    {Op::where, "Where"},
    {Op::cast, "Cast"},
    {Op::variable, "Identity"},
    {Op::stop_gradient, "Identity"},
    {Op::transfer, "Identity"},
};

AttributeData attribute(const char* name, std::int64_t value) {
  AttributeData made{name, AttributeData::Kind::integer};
  made.integer = value;
  return made;
}
AttributeData attribute(const char* name, int value) { return attribute(name, std::int64_t{value}); }
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
using AttributeList = std::vector<AttributeData>;

int first_axis(const AxisSet& axes, int rank) {
  for (int axis = 0; axis < rank; ++axis)
    if (axes[axis]) return axis;
  return rank;
}
int axis_count(const AxisSet& axes, int rank) {
  int count = 0;
  for (int axis = 0; axis < rank; ++axis) count += axes[axis];
  return count;
}
Integers list_of(const AxisSet& axes, int rank) {
  Integers list;
  for (int axis = 0; axis < rank; ++axis)
    if (axes[axis]) list.push_back(axis);
  return list;
}
const Shape& shape_of(const Tensor& value) { return type_of(value).shape; }
bool last_axes(const AxisSet& axes, const Tensor& x) {
  const int rank = shape_of(x).rank(), first = first_axis(axes, rank);
  return first < rank && axis_count(axes, rank) == rank - first;
}

// "none" or "tanh", as Gelu says which it is: a composite of 16-bit floats, a scalar expression of others. Null:
// neither.
const char* gelu_form(const Node& node) {
  if (node.definition == own_expressions().gelu) return "none";
  if (node.definition == own_expressions().gelu_tanh) return "tanh";
  if (node.definition || &node.attributes().type() != &attribute_type<ChoiceCall>) return nullptr;
  return node.attributes<ChoiceCall>().chosen ? "tanh" : "none";
}

// Whether ONNX has the composite as a node; else its body takes its place.
bool has_node(const Node& node) {
  if (node.op != Op::call) return true;
  if (node.operand_count == 0) return false;
  const std::string& name = interned_text(called_name(node.attributes()).id);
  const Tensor& x = node.input(0);
  const int rank = shape_of(x).rank();
  const bool plain = is_floating(type_of(x).dtype) && node.output_count == 1;
  if (!plain) return false;
  if (name == "softmax" || name == "log_softmax") return axis_count(node.attributes<ReducedCall>().axes, rank) == 1;
  if (name == "mean") return true;
  if (name == "gelu") return gelu_form(node) != nullptr;
  if (name == "layer_norm")
    return node.operand_count >= 2 && last_axes(node.attributes<NormalizedCall>().axes, x) &&
           type_of(node.input(1)).dtype == type_of(x).dtype;
  if (name == "rms_norm")
    return node.operand_count == 2 && last_axes(node.attributes<NormalizedCall>().axes, x) &&
           type_of(node.input(1)).dtype == type_of(x).dtype;
  if (name == "batch_norm_inference") return node.operand_count == 5 && rank >= 2;
  if (name == "max_pool") return node.operand_count == 1 && node.attributes<PoolCall>().kernel.count == rank - 2;
  if (name == "scaled_dot_product_attention")
    return rank == 4 && shape_of(node.input(1)).rank() == 4 && !node.attributes<AttentionCall>().has_mods();
  return false;
}

// ---- a graph that is written ----------------------------------------------------------------------------------------

class Writer {
 public:
  // Of the whole graph, or of one inside.
  Writer(const Graph& graph, const ModelPurpose& purpose) : symbols_(graph), purpose_(purpose) {}
  Writer(Writer& outer) : symbols_(outer.symbols_), outer_(&outer), purpose_(outer.purpose_) {}

  GraphData made;

  std::set<std::string> taken;  // names of inputs and initializers

  std::string fresh() {
    if (outer_) return outer_->fresh();
    std::string name;
    do name = concat_text("v", ++count_);
    while (taken.contains(name));
    return name;
  }
  void set(const Tensor& value, std::string name) { names_[value.word()] = std::move(name); }
  std::string name(const Tensor& value) const {
    const auto found = names_.find(value.word());
    if (found != names_.end()) return found->second;
    WEFT_CHECK(outer_, "a value that nothing gives");
    return outer_->name(value);
  }
  std::string emit(const char* operation, std::vector<std::string> inputs, AttributeList attributes = {}) {
    std::string result = fresh();
    made.nodes.push_back({"", operation, "", std::move(inputs), {result}, std::move(attributes)});
    return result;
  }
  std::string integers(const Integers& values) {
    TensorData data{fresh(), 7, {static_cast<std::int64_t>(values.size())}};
    data.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 8);
    made.initializers.push_back(data);
    return made.initializers.back().name;
  }
  // A number of a dtype, without axes.
  std::string number(DType dtype, double value) { return scalar(full({}, value, {dtype})); }
  std::string integer(DType dtype, std::int64_t value) { return scalar(full({}, value, {dtype})); }
  std::string scalar(const Tensor& value) {
    const io::HostElements elements(value, purpose_.loc);
    TensorData data{fresh(), element_type(value.dtype())};
    data.bytes.assign(elements.bytes().begin(), elements.bytes().end());
    made.initializers.push_back(std::move(data));
    return made.initializers.back().name;
  }
  std::string cast(const std::string& value, DType to) {
    return emit("Cast", {value}, {attribute("to", element_type(to))});
  }

  void nodes_of(const Graph& graph) {
    for (const Tensor& value : graph.nodes) {
      const Node& node = *value.node();
      if (node.op == Op::input) continue;
      write(node);
    }
  }
  // The values as outputs, each under a name of its own.
  void outputs_of(std::span<const Tensor> values, std::span<const std::string> wanted) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      made.nodes.push_back({"", "Identity", "", {name(values[i])}, {wanted[i]}});
      made.outputs.push_back(port(wanted[i], type_of(values[i])));
    }
  }
  static ValueData port(const std::string& name, const Type& type) {
    ValueData made{name, element_type(type.dtype), true};
    for (Dim size : type.shape)
      made.axes.push_back(size.is_constant() ? AxisData{size.constant(), ""} : AxisData{-1, dims::to_string(size)});
    return made;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Node& node, const Parts&... parts) const {
    purpose_.refuse(node.loc, parts...);
  }

  // ---- sizes
  // ----------------------------------------------------------------------------------------------------------

  // A size as a vector of one i64.
  std::string size(Dim dim) {
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
  std::string atom(const DimNode& node) {
    if (node.kind == DimKind::floor_divide) return emit("Div", {size(node.left), size(node.right)});
    if (node.kind == DimKind::modulo) return emit("Mod", {size(node.left), size(node.right)});
    WEFT_CHECK(node.kind == DimKind::symbol, "a size of a kind that no graph has");
    const Dim symbol = dims::symbol(node.number, node.lower.constant());
    for (const Tensor& input : symbols_.inputs)
      for (int axis = 0; axis < shape_of(input).rank(); ++axis)
        if (shape_of(input)[axis].same(symbol))
          return emit("Shape", {name(input)}, {attribute("start", axis), attribute("end", axis + 1)});
    purpose_.refuse({}, "a size depends on values, and is that of no input");
  }
  std::string sizes(const Shape& shape) {
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
  std::string reshaped(const std::string& value, const Shape& shape) {
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
  std::string filled(const Type& type, const std::string& value) {
    return type.shape.rank() == 0 ? value : emit("Expand", {value, sizes(type.shape)});
  }

  // ---- operations
  // -----------------------------------------------------------------------------------------------------

  // ONNX broadcasts: an operand need not be expanded where another one has the whole shape.
  static bool expands(const Tensor& value) {
    return value.node()->op == Op::expand || value.node()->op == Op::constant;
  }
  std::string operand(const Node& node, std::size_t i) {
    const Tensor& value = node.input(i);
    bool others = false;
    for (std::size_t k = 0; k < node.operand_count; ++k)
      others = others || (k != i && !expands(node.input(k)) && shape_of(node.input(k)).same(node.type.shape));
    if (!others || !expands(value)) return name(value);
    if (value.node()->op == Op::constant) {
      const auto found = scalars_.find(value.word());
      return found == scalars_.end() ? name(value) : found->second;
    }
    return name(value.node()->input(0));
  }
  std::vector<std::string> operands(const Node& node) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < node.operand_count; ++i) all.push_back(operand(node, i));
    return all;
  }

  void write(const Node& node) {
    const Tensor value(const_cast<Node*>(&node));
    if (node.op == Op::check) {
      if (outer_ && purpose_.with_checks) refuse(node, "a check inside a loop or a choice can't be given to an engine");
      return;
    }
    if (node.op == Op::call) return write_call(node);
    if (node.op == Op::scan) return write_scan(node);
    if (node.op == Op::while_loop) return write_while(node);
    if (node.op == Op::cond) return write_cond(node);
    if (node.op == Op::constant) {
      const auto& constant = node.attributes<Constant>();
      const DType dtype = node.type.dtype;
      std::string scalar;
      if (constant.is_size())
        scalar = cast(emit("Reshape", {size(constant.size), integers({})}), dtype);
      else if (is_floating(dtype))
        scalar = number(dtype, constant.as_number(dtype));
      else
        scalar = integer(dtype, constant.as_integer());
      scalars_[value.word()] = scalar;
      return set(value, filled(node.type, scalar));
    }
    set(value, written(node));
  }
  std::string one_of(DType dtype) { return is_floating(dtype) ? number(dtype, 1) : integer(dtype, 1); }

  std::string written(const Node& node) {
    const DType dtype = node.type.dtype;
    const Tensor* const first = node.operand_count ? &node.input(0) : nullptr;
    const DType from = first ? type_of(*first).dtype : dtype;
    const int rank = node.type.shape.rank();
    if (node.op == Op::round || node.op == Op::floor || node.op == Op::ceil || node.op == Op::trunc)
      if (!is_floating(dtype)) return name(*first);
    if (from == DType::boolean && (node.op == Op::less || node.op == Op::less_equal))
      return emit(node.op == Op::less ? "Less" : "LessOrEqual",
                  {cast(operand(node, 0), DType::i32), cast(operand(node, 1), DType::i32)});
    for (const PointwiseName& row : pointwise_names)
      if (row.op == node.op)
        return emit(row.name, operands(node),
                    node.op == Op::cast ? AttributeList{attribute("to", element_type(dtype))} : AttributeList());
    switch (node.op) {
      case Op::not_equal: return emit("Not", {emit("Equal", operands(node))});
      case Op::isfinite: {
        const std::string x = name(*first);
        return emit("Not", {emit("Or", {emit("IsNaN", {x}), emit("IsInf", {x})})});
      }
      case Op::bitwise_and: return emit(dtype == DType::boolean ? "And" : "BitwiseAnd", operands(node));
      case Op::bitwise_or: return emit(dtype == DType::boolean ? "Or" : "BitwiseOr", operands(node));
      case Op::bitwise_xor: return emit(dtype == DType::boolean ? "Xor" : "BitwiseXor", operands(node));
      case Op::bitwise_not: return emit(dtype == DType::boolean ? "Not" : "BitwiseNot", operands(node));
      case Op::remainder:
      case Op::floor_divide: {
        const std::string a = operand(node, 0), b = operand(node, 1);
        if (is_floating(dtype)) {
          const std::string quotient = emit("Floor", {emit("Div", {a, b})});
          return node.op == Op::floor_divide ? quotient : emit("Sub", {a, emit("Mul", {quotient, b})});
        }
        const std::string rest = emit("Mod", {a, b});
        return node.op == Op::remainder ? rest : emit("Div", {emit("Sub", {a, rest}), b});
      }
      case Op::fmod: return emit("Mod", operands(node), {attribute("fmod", 1)});
      case Op::trunc: {
        const std::string x = name(*first);
        return emit("Mul", {emit("Sign", {x}), emit("Floor", {emit("Abs", {x})})});
      }
      case Op::exp2: return emit("Pow", {number(dtype, 2), name(*first)});
      case Op::expm1: return emit("Sub", {emit("Exp", {name(*first)}), number(dtype, 1)});
      case Op::log1p: return emit("Log", {emit("Add", {name(*first), number(dtype, 1)})});
      case Op::log2: return emit("Mul", {emit("Log", {name(*first)}), number(dtype, 1 / std::log(2.0))});
      case Op::log10: return emit("Mul", {emit("Log", {name(*first)}), number(dtype, 1 / std::log(10.0))});
      case Op::rsqrt: return emit("Reciprocal", {emit("Sqrt", {name(*first)})});
      case Op::erfc: return emit("Sub", {number(dtype, 1), emit("Erf", {name(*first)})});

      case Op::data: {
        TensorData data{fresh(), element_type(dtype)};
        for (Dim each : node.type.shape) data.sizes.push_back(each.constant());
        const OutsideTraces outside;
        const io::HostElements elements(Tensor(const_cast<Node*>(&node)), purpose_.loc);
        data.bytes.assign(elements.bytes().begin(), elements.bytes().end());
        made.initializers.push_back(std::move(data));
        return made.initializers.back().name;
      }
      case Op::iota: {
        const int axis = rank == 0 ? 0 : node.attributes<Along>().axis;
        const std::string count = emit("Squeeze", {size(node.type.shape[axis])});
        const std::string range = emit("Range", {integer(DType::i64, 0), count, integer(DType::i64, 1)});
        Shape beside;
        for (int i = 0; i < rank; ++i) beside.push_back(i == axis ? node.type.shape[axis] : Dim(1));
        return cast(filled(node.type, rank == 1 ? range : reshaped(range, beside)), dtype);
      }
      case Op::bitcast: break;
      case Op::reshape: return reshaped(name(*first), node.type.shape);
      case Op::permute: {
        Integers axes;
        for (std::uint8_t axis : node.attributes<Permute>().axes) axes.push_back(axis);
        return emit("Transpose", {name(*first)}, {attribute("perm", axes)});
      }
      case Op::expand: return emit("Expand", {name(*first), sizes(node.type.shape)});
      case Op::slice: {
        const auto& how = node.attributes<Slice>();
        const Dim start = how.start, count = node.type.shape[how.axis];
        const Dim stop = start + Dim(how.step) * (count - Dim(1)) + Dim(how.step > 0 ? 1 : -1);
        const bool to_front = how.step < 0 && stop.is_constant() && stop.constant() < 0;
        const std::string end = to_front ? integers({std::numeric_limits<std::int64_t>::min()}) : size(stop);
        return emit("Slice", {name(*first), size(start), end, integers({how.axis}), integers({how.step})});
      }
      case Op::windows: {
        const auto& how = node.attributes<Windows>();
        const Dim places = node.type.shape[how.axis], windows = node.type.shape[how.axis + 1];
        // Element (place, window) is that at window * step + place * dilation.
        const auto range = [&](Dim count, std::int64_t factor) {
          const std::string all =
              emit("Range", {integer(DType::i64, 0), emit("Squeeze", {size(count)}), integer(DType::i64, 1)});
          return emit("Mul", {all, integers({factor})});
        };
        const std::string column = emit("Unsqueeze", {range(places, how.dilation), integers({1})});
        return emit("Gather", {name(*first), emit("Add", {column, range(windows, how.step)})},
                    {attribute("axis", how.axis)});
      }
      case Op::concat: {
        std::vector<std::string> parts;
        for (const Tensor& each : node.inputs()) parts.push_back(name(each));
        return emit("Concat", parts, {attribute("axis", node.attributes<Along>().axis)});
      }
      case Op::pad: return padded(node);

      case Op::sum:
      case Op::prod:
      case Op::amax:
      case Op::amin: {
        const char* const reduce = node.op == Op::sum    ? "ReduceSum"
                                   : node.op == Op::prod ? "ReduceProd"
                                   : node.op == Op::amax ? "ReduceMax"
                                                         : "ReduceMin";
        std::string x = name(*first);
        if (from != dtype) x = cast(x, dtype);
        const bool boolean = dtype == DType::boolean;
        if (boolean) x = cast(x, DType::i32);
        x = emit(reduce, {x, integers(list_of(node.attributes<Reduce>().axes, rank))});
        return boolean ? cast(x, dtype) : x;
      }
      case Op::argmax:
        return emit("ArgMax", {name(*first)}, {attribute("axis", first_axis(node.attributes<Reduce>().axes, rank))});
      case Op::cumsum: {
        const std::string x = from == dtype ? name(*first) : cast(name(*first), dtype);
        return emit("CumSum", {x, integer(DType::i64, node.attributes<Along>().axis)});
      }
      case Op::matmul: {
        const auto in = [&](std::size_t i) {
          return type_of(node.input(i)).dtype == dtype ? name(node.input(i)) : cast(name(node.input(i)), dtype);
        };
        return emit("MatMul", {in(0), in(1)});
      }
      case Op::convolution:
      case Op::convolution_input_gradient: return convolved(node);
      case Op::gather: return emit("Gather", {name(*first), name(node.input(1))});
      case Op::scatter_add:
      case Op::scatter_amax: {
        const bool adds = node.op == Op::scatter_add;
        const std::string empty = adds || !is_floating(dtype)
                                      ? (is_floating(dtype) ? number(dtype, 0) : integer(dtype, 0))
                                      : number(dtype, -std::numeric_limits<double>::infinity());
        if (!adds && !is_floating(dtype)) break;
        return emit("ScatterND",
                    {filled(node.type, empty), emit("Unsqueeze", {name(*first), integers({-1})}), name(node.input(1))},
                    {attribute("reduction", adds ? "add" : "max")});
      }
      case Op::update_slice: {
        const int axis = node.attributes<Along>().axis;
        const std::string x = name(*first), start = emit("Reshape", {name(node.input(2)), integers({1})});
        const std::string after = emit("Add", {start, size(shape_of(node.input(1))[axis])});
        const std::string axes = integers({axis}), zero = integers({0}),
                          end = integers({std::numeric_limits<std::int64_t>::max()});
        return emit("Concat",
                    {emit("Slice", {x, zero, start, axes}), name(node.input(1)), emit("Slice", {x, after, end, axes})},
                    {attribute("axis", axis)});
      }
      case Op::update_rows: {
        const auto& how = node.attributes<RowUpdate>();
        const auto turned = [&](const std::string& x) {
          if (how.axis == 0) return x;
          Integers perm;
          for (int i = 0; i < rank; ++i) perm.push_back(i);
          std::swap(perm[0], perm[how.axis]);
          return emit("Transpose", {x}, {attribute("perm", perm)});
        };
        return turned(emit("ScatterND",
                           {turned(name(*first)), emit("Unsqueeze", {name(node.input(2)), integers({-1})}),
                            turned(name(node.input(1)))},
                           {attribute("reduction", how.adds ? "add" : "none")}));
      }
      case Op::argsort: {
        const auto& how = node.attributes<Order>();
        std::string values = fresh(), places = fresh();
        made.nodes.push_back({"",
                              "TopK",
                              "",
                              {name(*first), size(shape_of(*first)[rank - 1])},
                              {values, places},
                              {attribute("axis", -1), attribute("largest", int{how.descending})}});
        if (how.count.same(Dim(0))) return places;
        return emit("Slice", {places, size(how.first), size(how.first + how.count), integers({-1})});
      }
      default: break;
    }
    refuse(node, "ONNX has no operation for ", name_of(node), " of ", to_string(node.type));
  }

  std::string padded(const Node& node) {
    const auto& how = node.attributes<Pad>();
    const Shape& shape = shape_of(node.input(0));
    std::string x = name(node.input(0));
    const bool boolean = node.type.dtype == DType::boolean;
    if (boolean) x = cast(x, DType::u8);
    const std::string axes = integers({how.axis});
    if (how.interior != 0) {  // zeros on a new axis after it, which both become
      const std::string apart = emit("Unsqueeze", {x, integers({how.axis + 1})});
      const std::string with = emit("Pad", {apart, integers({0, how.interior}), "", integers({how.axis + 1})});
      Shape joined = shape;
      joined[how.axis] = shape[how.axis] * Dim(how.interior + 1);
      const Dim size_here = shape[how.axis] + (shape[how.axis] - Dim(1)) * Dim(how.interior);
      x = emit("Slice", {reshaped(with, joined), integers({0}), size(size_here), axes});
    }
    if (!how.before.same(Dim(0)) || !how.after.same(Dim(0)))
      x = emit("Pad", {x, emit("Concat", {size(how.before), size(how.after)}, {attribute("axis", 0)}), "", axes});
    return boolean ? cast(x, node.type.dtype) : x;
  }
  std::string convolved(const Node& node) {
    const auto& how = node.attributes<Convolution>();
    const DType dtype = node.type.dtype;
    const auto in = [&](std::size_t i) {
      return type_of(node.input(i)).dtype == dtype ? name(node.input(i)) : cast(name(node.input(i)), dtype);
    };
    const auto list = [](const List<std::int64_t>& values) { return Integers(values.begin(), values.end()); };
    Integers pads = list(how.low);
    const Integers high = list(how.high);
    pads.insert(pads.end(), high.begin(), high.end());
    AttributeList attributes{attribute("strides", list(how.strides)), attribute("pads", pads),
                             attribute("dilations", list(how.dilation)), attribute("group", how.groups)};
    if (node.op == Op::convolution) return emit("Conv", {in(0), in(1)}, std::move(attributes));
    const Shape &given = shape_of(node.input(0)), &kernel = shape_of(node.input(1));
    Integers more;
    for (int i = 0; i < how.strides.count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const Dim usual = (given[i + 2] - Dim(1)) * Dim(how.strides[k]) +
                        Dim(how.dilation[k]) * (kernel[i + 2] - Dim(1)) + Dim(1 - how.low[k] - how.high[k]);
      const Dim difference = node.type.shape[i + 2] - usual;
      if (!difference.is_constant())
        refuse(node, "the size of a transposed convolution varies in a way that ONNX can't say");
      more.push_back(difference.constant());
    }
    if (std::ranges::any_of(more, [](std::int64_t each) { return each != 0; }))
      attributes.push_back(attribute("output_padding", more));
    return emit("ConvTranspose", {in(0), in(1)}, std::move(attributes));
  }

  void write_call(const Node& node) {
    const std::string& called = interned_text(called_name(node.attributes()).id);
    const Tensor value(const_cast<Node*>(&node));
    const Tensor& x = node.input(0);
    const int rank = shape_of(x).rank();
    std::vector<std::string> all;
    for (const Tensor& each : node.inputs()) all.push_back(name(each));
    if (called == "softmax" || called == "log_softmax")
      return set(value, emit(called == "softmax" ? "Softmax" : "LogSoftmax", all,
                             {attribute("axis", first_axis(node.attributes<ReducedCall>().axes, rank))}));
    if (called == "mean") {
      const auto& how = node.attributes<ReducedCall>();
      return set(value, emit("ReduceMean", {all[0], integers(list_of(how.axes, rank))},
                             {attribute("keepdims", int{how.keepdim})}));
    }
    if (called == "gelu") return set(value, emit("Gelu", all, {attribute("approximate", gelu_form(node))}));
    if (called == "layer_norm" || called == "rms_norm") {
      const auto& how = node.attributes<NormalizedCall>();
      return set(value, emit(called == "layer_norm" ? "LayerNormalization" : "RMSNormalization", all,
                             {attribute("axis", first_axis(how.axes, rank)), attribute("epsilon", how.eps)}));
    }
    if (called == "batch_norm_inference") {
      for (std::size_t i = 1; i < all.size(); ++i)
        if (shape_of(node.input(i)).rank() != 1) all[i] = emit("Reshape", {all[i], integers({-1})});
      return set(value, emit("BatchNormalization", all, {attribute("epsilon", node.attributes<NormalizedCall>().eps)}));
    }
    if (called == "max_pool") {
      const auto& how = node.attributes<PoolCall>();
      const auto list = [](const List<std::int64_t>& values) { return Integers(values.begin(), values.end()); };
      return set(value, emit("MaxPool", all,
                             {attribute("kernel_shape", list(how.kernel)), attribute("strides", list(how.strides)),
                              attribute("dilations", list(how.dilation))}));
    }
    const auto& how = node.attributes<AttentionCall>();
    return set(value,
               emit("Attention", all, {attribute("scale", how.scale), attribute("is_causal", int{how.is_causal})}));
  }

  // ---- loops and choices
  // ------------------------------------------------------------------------------------------------

  static Graph body_of(const Node& node, std::size_t i) {
    return with_calls_inlined(*node.bodies()[i], [](const Node& each) { return !has_node(each); });
  }
  void give(const Node& node, const std::vector<std::string>& results) {
    for (std::size_t i = 0; i < results.size(); ++i)
      set(Tensor(const_cast<Node*>(&node), static_cast<unsigned>(i)), results[i]);
  }
  std::vector<std::string> fresh_names(std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(fresh());
    return names;
  }

  void write_scan(const Node& node) {
    const auto& how = node.attributes<Scan>();
    const auto carries = static_cast<std::size_t>(how.carries), scanned = static_cast<std::size_t>(how.scanned);
    const Graph body = body_of(node, 0);
    Writer inside(*this);
    std::vector<std::string> operands;
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      if (i >= carries + scanned) {
        inside.set(body.inputs[i], name(node.input(i)));
        continue;
      }
      const std::string own = fresh();
      inside.set(body.inputs[i], own);
      inside.made.inputs.push_back(port(own, type_of(body.inputs[i])));
      operands.push_back(name(node.input(i)));
    }
    if (scanned == 0) {  // a row of nothing for each iteration
      const std::string own = fresh();
      inside.made.inputs.push_back({own, element_type(DType::i64), true});
      operands.push_back(
          emit("Range", {integer(DType::i64, 0), emit("Squeeze", {size(how.length)}), integer(DType::i64, 1)}));
    }
    inside.nodes_of(body);
    inside.outputs_of(body.outputs, fresh_names(body.outputs.size()));
    inside.made.name = fresh();
    const std::size_t stacked = body.outputs.size() - carries, rows = std::max<std::size_t>(scanned, 1);
    AttributeList attributes{attribute("num_scan_inputs", static_cast<std::int64_t>(rows)),
                             attribute("body", std::move(inside.made))};
    if (how.reverse) {
      attributes.push_back(attribute("scan_input_directions", Integers(rows, 1)));
      if (stacked) attributes.push_back(attribute("scan_output_directions", Integers(stacked, 1)));
    }
    const std::vector<std::string> results = fresh_names(node.output_count);
    made.nodes.push_back({"", "Scan", "", operands, results, std::move(attributes)});
    give(node, results);
  }
  void write_while(const Node& node) {
    const auto carries = static_cast<std::size_t>(node.attributes<While>().carries);
    const Graph condition = body_of(node, 0), body = body_of(node, 1);
    const auto asked = [&](Writer& at, const std::vector<std::string>& values) {
      for (std::size_t i = 0; i < condition.inputs.size(); ++i)
        at.set(condition.inputs[i], i < carries ? values[i] : name(node.input(i)));
      at.nodes_of(condition);
      return at.emit("Reshape", {at.name(condition.outputs[0]), at.integers({})});
    };
    std::vector<std::string> first;
    for (std::size_t i = 0; i < carries; ++i) first.push_back(name(node.input(i)));
    const std::string begins = asked(*this, first);
    Writer inside(*this);
    const std::string iteration = fresh(), goes_on = fresh();
    inside.made.inputs = {{iteration, element_type(DType::i64), true}, {goes_on, element_type(DType::boolean), true}};
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      const std::string own = i < carries ? fresh() : name(node.input(i));
      inside.set(body.inputs[i], own);
      if (i < carries) inside.made.inputs.push_back(port(own, type_of(body.inputs[i])));
    }
    inside.nodes_of(body);
    std::vector<std::string> next;
    for (const Tensor& each : body.outputs) next.push_back(inside.name(each));
    const std::string again = asked(inside, next), out = fresh();
    inside.made.nodes.push_back({"", "Identity", "", {again}, {out}});
    inside.made.outputs.push_back({out, element_type(DType::boolean), true});
    inside.outputs_of(body.outputs, fresh_names(carries));
    inside.made.name = fresh();
    std::vector<std::string> operands{"", begins};
    operands.insert(operands.end(), first.begin(), first.end());
    const std::vector<std::string> results = fresh_names(node.output_count);
    made.nodes.push_back({"", "Loop", "", operands, results, {attribute("body", std::move(inside.made))}});
    give(node, results);
  }
  void write_cond(const Node& node) {
    AttributeList attributes;
    for (std::size_t branch = 0; branch < 2; ++branch) {
      const Graph body = body_of(node, branch);
      Writer inside(*this);
      for (std::size_t i = 0; i < body.inputs.size(); ++i) inside.set(body.inputs[i], name(node.input(i + 1)));
      inside.nodes_of(body);
      inside.outputs_of(body.outputs, fresh_names(body.outputs.size()));
      inside.made.name = fresh();
      attributes.push_back(attribute(branch == 0 ? "then_branch" : "else_branch", std::move(inside.made)));
    }
    const std::string predicate = emit("Reshape", {name(node.input(0)), integers({})});
    const std::vector<std::string> results = fresh_names(node.output_count);
    made.nodes.push_back({"", "If", "", {predicate}, results, std::move(attributes)});
    give(node, results);
  }

  const Graph& symbols_;
  Writer* const outer_ = nullptr;
  const ModelPurpose& purpose_;
  int count_ = 0;
  std::unordered_map<std::uint64_t, std::string> names_, scalars_, sizes_;
};

// Takes out nodes and initializers that nothing reads. `used`: names that are read, of graphs inside too.
void note_names(const GraphData& graph, std::set<std::string>& used) {
  for (const ValueData& each : graph.outputs) used.insert(each.name);
  for (const NodeData& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const AttributeData& each : node.attributes)
      if (each.graph) note_names(*each.graph, used);
  }
}
void drop_unread(GraphData& graph) {
  std::set<std::string> used;
  for (const ValueData& each : graph.outputs) used.insert(each.name);
  std::vector<NodeData> kept;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    NodeData& node = graph.nodes[i];
    if (std::ranges::none_of(node.outputs, [&](const std::string& name) { return used.contains(name); })) continue;
    for (AttributeData& each : node.attributes)
      if (each.graph) {
        drop_unread(*each.graph);
        note_names(*each.graph, used);
      }
    used.insert(node.inputs.begin(), node.inputs.end());
    kept.push_back(std::move(node));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
  std::erase_if(graph.initializers, [&](const TensorData& each) { return !used.contains(each.name); });
}

}  // namespace

WrittenModel write_model(const Graph& traced, const ModelPorts& ports, const ModelPurpose& purpose) {
  const Graph graph = with_calls_inlined(traced, [](const Node& node) { return !has_node(node); });
  Writer writer(graph, purpose);
  writer.made.name = "graph";
  for (const std::string& name : ports.inputs) writer.taken.insert(name);
  for (const ModelPorts::Output& each : ports.outputs) writer.taken.insert(each.name);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = ports.inputs[i];
    writer.set(graph.inputs[i], name);
    if (i >= ports.initializers.size() || !ports.initializers[i].defined()) {
      writer.made.inputs.push_back(Writer::port(name, type_of(graph.inputs[i])));
      continue;
    }
    const Tensor& value = ports.initializers[i];
    TensorData data{name, element_type(type_of(value).dtype)};
    for (Dim each : value.shape()) data.sizes.push_back(each.constant());
    const io::HostElements elements(value, purpose.loc);
    data.bytes.assign(elements.bytes().begin(), elements.bytes().end());
    writer.made.initializers.push_back(std::move(data));
  }
  writer.nodes_of(graph);
  std::vector<Tensor> values;
  std::vector<std::string> names;
  for (const ModelPorts::Output& each : ports.outputs) {
    values.push_back((each.is_input ? graph.inputs : graph.outputs)[each.index]);
    names.push_back(each.name);
  }
  WrittenModel written;
  for (const Tensor& effect : graph.effects) {
    if (!purpose.with_checks || effect.node()->op != Op::check) continue;
    written.checks.push_back(interned_text(effect.node()->attributes<Message>().text.id));
    values.push_back(effect.node()->input(0));
    names.push_back(writer.fresh());
  }
  writer.outputs_of(values, names);
  drop_unread(writer.made);
  written.model = {10, {{"", written_set}}, "weft"};
  written.model.graph = std::move(writer.made);
  return written;
}

}  // namespace weft::onnx
