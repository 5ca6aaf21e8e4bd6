#include "providers/convolution.hpp"

#include "base/fail.hpp"

namespace weft::providers {

namespace {

using runtime::Convolved;

Convolved result_of(Op op) {
  return op == Op::convolution                  ? Convolved::output
         : op == Op::convolution_input_gradient ? Convolved::input
                                                : Convolved::weight;
}
const Shape& shape_of(const Node& node, Convolved value) {
  const Convolved result = result_of(node.op);
  if (value == result) return node.type.shape;
  return type_of(node.input(runtime::value_of_operand(result, 0) == value ? 0 : 1)).shape;
}

}  // namespace

std::optional<runtime::ConvolutionDims> convolution_dims(const Node& node) {
  if (info(node.op).kind != OpKind::convolution) return std::nullopt;
  const auto& c = node.attributes<Convolution>();
  const auto list = [](const List<std::int64_t>& from) {
    return runtime::ConvolutionDims::List(from.begin(), from.end());
  };
  return runtime::ConvolutionDims::of(result_of(node.op), node.type.dtype, type_of(node.input(0)).shape,
                                      type_of(node.input(1)).shape, node.type.shape, list(c.strides), list(c.low),
                                      list(c.high), list(c.dilation), c.groups);
}

runtime::ConvolutionSizes expected(const runtime::ConvolutionDims& dims) {
  const DimEnvironment* const environment = DimEnvironment::current();
  std::vector<std::int64_t> values;
  for (const Dim dim : dims.dims())
    values.push_back(dim.is_constant() ? dim.constant() : environment ? environment->hint(dim) : 2);
  return dims.with(values);
}

namespace {

runtime::ConvolutionDims placed(const Candidate& candidate) {
  std::optional<runtime::ConvolutionDims> dims = convolution_dims(candidate.node);
  WEFT_CHECK(dims, "a convolution of unknown channels");
  for (int i = 0; i < 3; ++i) {
    const PlacedValue& value = i < 2 ? candidate.operands[static_cast<std::size_t>(i)] : candidate.result();
    dims->place(runtime::value_of_operand(result_of(candidate.node.op), i), value.type.shape, value.strides);
  }
  return *std::move(dims);
}

}  // namespace

ConvolutionPayload::ConvolutionPayload(const Candidate& candidate)
    : dims_(placed(candidate)), dtype_(candidate.node.type.dtype) {
  for (const PlacedValue& operand : candidate.operands) offsets_.push_back(operand.offset);
  offsets_.push_back(candidate.result().offset);
  text_ = " " + to_string(shape_of(candidate.node, Convolved::input)) + " with " +
          to_string(shape_of(candidate.node, Convolved::weight));
  Dim elements = candidate.result().type.shape.element_count();
  for (const PlacedValue& operand : candidate.operands) elements = elements + operand.type.shape.element_count();
  cost_ = {storage_bytes(info(dtype_), elements), Dim(2) * dims_.multiplications() * dims_.batch()};
}

std::string ConvolutionPayload::details() const { return text_; }

}  // namespace weft::providers
