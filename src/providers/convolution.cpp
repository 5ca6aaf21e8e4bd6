#include "providers/convolution.hpp"

#include <algorithm>
#include <string_view>

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"

namespace weft::providers {

namespace {

using runtime::ConvolutionSizes;
using runtime::Convolved;

// A call of one with a bias gives the output.
Convolved result_of(Op op) {
  return op == Op::convolution_input_gradient    ? Convolved::input
         : op == Op::convolution_weight_gradient ? Convolved::weight
                                                 : Convolved::output;
}
const Shape& shape_of(const Node& node, Convolved value) {
  const Convolved result = result_of(node.op);
  if (value == result) return node.type.shape;
  return type_of(node.input(runtime::value_of_operand(result, 0) == value ? 0 : 1)).shape;
}

}  // namespace

bool is_convolution_with_bias(const Node& node) {
  if (node.op != Op::call || node.definition || &node.attributes().type() != &attribute_type<ConvolutionCall> ||
      node.operand_count != 3 || node.output_count != 1 || !std::string_view(name_of(node)).starts_with("conv") ||
      std::string_view(name_of(node)).ends_with("_backward"))
    return false;
  const DType dtype = node.type.dtype;
  if (!is_floating(dtype) || computed_in(dtype) == dtype) return false;
  return std::all_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Tensor& operand) { return type_of(operand).dtype == dtype; });
}

std::optional<runtime::ConvolutionDims> convolution_dims(const Node& node) {
  const bool biased = is_convolution_with_bias(node);
  if (!biased && info(node.op).kind != OpKind::convolution) return std::nullopt;
  const Convolution c = biased ? node.attributes().as<ConvolutionCall>().convolution() : node.attributes<Convolution>();
  const auto list = [](const List<std::int64_t>& from) {
    return runtime::ConvolutionDims::List(from.begin(), from.end());
  };
  const Type& first = type_of(node.input(0));
  auto dims = runtime::ConvolutionDims::of(result_of(node.op), first.dtype, first.shape, type_of(node.input(1)).shape,
                                           node.type.shape, list(c.strides), list(c.low), list(c.high),
                                           list(c.dilation), c.groups);
  if (dims && node.type.dtype != first.dtype) dims->set_wide();
  if (dims && biased) dims->set_bias();
  return dims;
}

runtime::ConvolutionSizes expected(const runtime::ConvolutionDims& dims) {
  std::vector<std::int64_t> values;
  for (const Dim dim : dims.dims()) values.push_back(dims::at_hints(dim));
  return dims.with(values);
}

// Not the input's gradient of some positions, whose product would be with zeros between.
bool is_product(const ConvolutionSizes& sizes) {
  if (sizes.result == Convolved::weight || sizes.groups != 1) return false;
  const bool steps = sizes.result == Convolved::output;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(sizes.axes); ++axis)
    if (sizes.kernel[axis] != 1 || (sizes.strides[axis] != 1 && !steps) || sizes.low[axis] + sizes.high[axis] != 0)
      return false;
  return true;
}

namespace {

runtime::ConvolutionDims placed_dims(const Candidate& candidate) {
  std::optional<runtime::ConvolutionDims> dims = convolution_dims(candidate.node);
  WEFT_CHECK(dims, "a convolution of unknown channels");
  for (int i = 0; i < 3; ++i) {
    const PlacedValue& value = i < 2 ? candidate.operands[static_cast<std::size_t>(i)] : candidate.result();
    dims->place(runtime::value_of_operand(result_of(candidate.node.op), i), value.type.shape, value.strides);
  }
  if (candidate.choices.uses_tf32 && candidate.device.type == Device::Type::cuda && dims->dtype() == DType::f32)
    dims->set_tf32();
  return *std::move(dims);
}

}  // namespace

PlacedConvolution::PlacedConvolution(const Candidate& candidate) : dims(placed_dims(candidate)) {
  for (std::size_t i = 0; i < 2; ++i) offsets.push_back(candidate.operands[i].offset);
  offsets.push_back(candidate.result().offset);
  if (dims.has_bias()) offsets.push_back(candidate.operands[2].offset);
  text = " " + to_string(shape_of(candidate.node, Convolved::input)) + " with " +
         to_string(shape_of(candidate.node, Convolved::weight));
  const auto bytes = [](const Type& type) { return storage_bytes(info(type.dtype), type.shape.element_count()); };
  Dim moved = bytes(candidate.result().type);
  for (const PlacedValue& operand : candidate.operands) moved = moved + bytes(operand.type);
  cost = {moved, Dim(2) * dims.multiplications() * dims.batch()};
}

}  // namespace weft::providers
