// What primitives and composites become. A table of pointwise operations, a function for each other primitive, and one
// for each composite that ONNX has.
#include <cmath>
#include <limits>

#include "base/fail.hpp"
#include "io/file_values.hpp"
#include "ir/composites.hpp"
#include "onnx/writer.hpp"
#include "record/expressions.hpp"
#include "record/record.hpp"

namespace weft::onnx {

namespace {

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

}  // namespace

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
    return rank == 4 && shape_of(node.input(1)).rank() == 4 && !node.attributes<AttentionCall>().has_mods() &&
           node.attributes<AttentionCall>().dropout == 0;
  return false;
}

bool Writer::expands(const Tensor& value) { return value.node()->op == Op::expand || value.node()->op == Op::constant; }
std::string Writer::operand(const Node& node, std::size_t i) {
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
std::vector<std::string> Writer::operands(const Node& node) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < node.operand_count; ++i) all.push_back(operand(node, i));
  return all;
}
void Writer::write(const Node& node) {
  const Tensor value(const_cast<Node*>(&node));
  if (node.op == Op::check) {
    if (outer_ && purpose_.for_engine) refuse(node, "a check inside a loop or a choice can't be given to an engine");
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
std::string Writer::written(const Node& node) {
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
    case Op::update_slice: {  // by the numbers of rows: slices around the update would have sizes that values decide
      const int axis = node.attributes<Along>().axis;
      const std::string count = emit("Squeeze", {size(shape_of(node.input(1))[axis])});
      const std::string rows = emit("Range", {integer(DType::i64, 0), count, integer(DType::i64, 1)});
      return rows_updated(node, axis, emit("Add", {rows, cast(name(node.input(2)), DType::i64)}), false);
    }
    case Op::update_rows: {
      const auto& how = node.attributes<RowUpdate>();
      return rows_updated(node, how.axis, name(node.input(2)), how.adds);
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
// The first operand with the second one in the place of rows of these numbers, along the axis, or added to them.
std::string Writer::rows_updated(const Node& node, int axis, const std::string& numbers, bool adds) {
  const auto turned = [&](const std::string& x) {
    if (axis == 0) return x;
    Integers perm;
    for (int i = 0; i < node.type.shape.rank(); ++i) perm.push_back(i);
    std::swap(perm[0], perm[static_cast<std::size_t>(axis)]);
    return emit("Transpose", {x}, {attribute("perm", perm)});
  };
  return turned(
      emit("ScatterND",
           {turned(name(node.input(0))), emit("Unsqueeze", {numbers, integers({-1})}), turned(name(node.input(1)))},
           {attribute("reduction", adds ? "add" : "none")}));
}
std::string Writer::padded(const Node& node) {
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
std::string Writer::convolved(const Node& node) {
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
    const Dim usual = (given[i + 2] - Dim(1)) * Dim(how.strides[k]) + Dim(how.dilation[k]) * (kernel[i + 2] - Dim(1)) +
                      Dim(1 - how.low[k] - how.high[k]);
    const Dim difference = node.type.shape[i + 2] - usual;
    if (!difference.is_constant())
      refuse(node, "the size of a transposed convolution varies in a way that ONNX can't say");
    more.push_back(difference.constant());
  }
  if (std::ranges::any_of(more, [](std::int64_t each) { return each != 0; }))
    attributes.push_back(attribute("output_padding", more));
  return emit("ConvTranspose", {in(0), in(1)}, std::move(attributes));
}
void Writer::write_call(const Node& node) {
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

}  // namespace weft::onnx
