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

std::optional<runtime::ConvolutionSizes> convolution_sizes(const Node& node) {
  if (info(node.op).kind != OpKind::convolution) return std::nullopt;
  const auto& c = node.attributes<Convolution>();
  const auto list = [](const List<std::int64_t>& from) {
    return runtime::ConvolutionSizes::List(from.begin(), from.end());
  };
  return runtime::ConvolutionSizes::of(result_of(node.op), node.type.dtype, type_of(node.input(0)).shape,
                                       type_of(node.input(1)).shape, node.type.shape, list(c.strides), list(c.low),
                                       list(c.high), list(c.dilation), c.groups);
}

runtime::ConvolutionSizes convolution_sizes(const Candidate& candidate) {
  std::optional<runtime::ConvolutionSizes> sizes = convolution_sizes(candidate.node);
  WEFT_CHECK(sizes, "a convolution of unknown sizes");
  for (int i = 0; i < 3; ++i) {
    const PlacedValue& value = i < 2 ? candidate.operands[static_cast<std::size_t>(i)] : candidate.result();
    std::array<std::int64_t, 5>& strides = sizes->strides_of(runtime::value_of_operand(sizes->result, i));
    for (std::size_t axis = 0; axis < value.strides.size(); ++axis) {
      const Dim stride = value.strides[axis];
      if (!value.type.shape[static_cast<int>(axis)].same(Dim(1))) strides[axis] = stride.constant();
    }
  }
  return *sizes;
}

ConvolutionPayload::ConvolutionPayload(const Candidate& candidate)
    : sizes_(convolution_sizes(candidate)), batch_(shape_of(candidate.node, Convolved::input)[0]) {
  for (const PlacedValue& operand : candidate.operands) offsets_.push_back(operand.offset);
  offsets_.push_back(candidate.result().offset);
  text_ = " " + to_string(shape_of(candidate.node, Convolved::input)) + " with " +
          to_string(shape_of(candidate.node, Convolved::weight));
  Dim elements = candidate.result().type.shape.element_count();
  for (const PlacedValue& operand : candidate.operands) elements = elements + operand.type.shape.element_count();
  cost_ = {storage_bytes(info(sizes_.dtype), elements), Dim(2 * sizes_.multiplications()) * batch_};
}

std::string ConvolutionPayload::text() const { return text_; }

}  // namespace weft::providers
