// Convolutions of 1 to 3 axes, and transposed ones.
#include "weft/convolution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/fail.hpp"
#include "ir/infer.hpp"
#include "record/composite.hpp"
#include "record/pooling.hpp"
#include "record/products.hpp"

namespace weft::detail {
namespace {

// With this size of an axis as a number, where a compiled function keeps it symbolic.
Tensor with_number(const Tensor& value, int axis, Loc loc) {
  Shape shape = type_of(value).shape;
  if (shape[axis].is_constant()) return value;
  shape[axis] = static_cast<std::int64_t>(shape[axis]);
  return reshape_to(value, shape, loc);
}

// The operands as the primitives take them; a result of no batch loses its own again.
struct Operands {
  Tensor x, weight;
  bool single;
  Operands(const char* name, const At& left, const At& right, int count, const char* layout, Loc loc)
      : x(resolve(left, name)), weight(resolve(right, name)) {
    const Type from = type_of(x), kernel = type_of(weight);
    const int rank = count + 2;
    if ((from.shape.rank() != rank && from.shape.rank() != rank - 1) || kernel.shape.rank() != rank)
      fail(name, loc, "needs an input [N,C,sizes...] or [C,sizes...] and a weight ", layout, " of ",
           counted(count, "size", "sizes"), ": ", to_string(from), " x ", to_string(kernel));
    const DType dtype = promote({from.dtype, false, from.weak}, {kernel.dtype, false, kernel.weak});
    x = cast(x, dtype);
    weight = cast(weight, dtype);
    single = from.shape.rank() == rank - 1;
    if (single) x = unsqueeze(x, 0);
    x = with_number(x, 1, loc);
    for (int axis = 0; axis < rank; ++axis) weight = with_number(weight, axis, loc);
  }
  // The bias of so many channels; undefined where there is none.
  static Tensor bias_of(const char* name, const At* bias, Dim channels, Loc loc) {
    if (!bias) return {};
    const Tensor own = resolve(*bias, name);
    const Shape& shape = type_of(own).shape;
    if (shape.rank() != 1 || !(shape[0] == channels))
      fail(name, loc, "needs a bias of ", dims::to_string(channels), " channels, it is ", to_string(type_of(own)));
    return own;
  }
  // The dtype of the convolution itself: a bias is added to sums that are not rounded yet.
  DType dtype_of_result(const Tensor& bias) const {
    const DType dtype = type_of(x).dtype;
    return bias.defined() ? dtype_of_sums(dtype) : dtype;
  }
  Tensor finish(const Tensor& result) const { return single ? squeeze(result, 0) : result; }
};

// With a bias, rounded once to what the operands' dtype and the bias's promote to.
Tensor with_bias(const Tensor& sums, const Tensor& bias, DType operands) {
  if (!bias.defined()) return sums;
  const Type& type = type_of(bias);
  Shape across = Shape::of(type.shape[0]);
  for (int axis = 2; axis < type_of(sums).shape.rank(); ++axis) across.push_back(1);
  return cast(sums + reshape(bias, across), promote({operands, false, false}, {type.dtype, false, type.weak}));
}

// The gradients of the convolution are in the operands' dtype, and the bias has a sum.
void differentiate_convolution(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &x = call.operands[0], &weight = call.operands[1], &bias = call.operands[2];
  const Attributes how = call.called.as<ConvolutionCall>().convolution();
  const Tensor gradient = cast(call.gradients[0], type_of(x).dtype);
  gradients[0] = record(Op::convolution_input_gradient, {gradient, weight}, how, type_of(x), {});
  gradients[1] = record(Op::convolution_weight_gradient, {x, gradient}, how, type_of(weight), {});
  std::vector<int> axes;
  for (int axis = 0; axis < type_of(gradient).shape.rank(); ++axis)
    if (axis != 1) axes.push_back(axis);
  gradients[2] = cast(sum(call.gradients[0], axes), type_of(bias).dtype);
}

Convolution attributes_of(const char* name, const Convolve& how, const Shape& kernel, Loc loc) {
  check_convolve(name, how, loc);
  Convolution attributes;
  attributes.groups = how.groups;
  for (int axis = 0; axis < how.count; ++axis) {
    attributes.strides.push_back(how.stride[axis]);
    attributes.dilation.push_back(how.dilation[axis]);
    std::int64_t low = how.padding[axis], high = low;
    if (how.same) {
      const std::int64_t zeros = how.dilation[axis] * (kernel[axis + 2].constant() - 1);
      low = zeros / 2, high = zeros - low;
    }
    attributes.low.push_back(low);
    attributes.high.push_back(high);
  }
  return attributes;
}

}  // namespace

// `what` of each axis is at least `least`.
void check_axes(const char* name, const char* what, const std::int64_t* numbers, int count, std::int64_t least,
                Loc loc) {
  for (int axis = 0; axis < count; ++axis)
    if (numbers[axis] < least)
      fail(name, loc, what, least > 0 ? " must be positive, it is " : " must not be negative, it is ", numbers[axis]);
}

void check_convolve(const char* name, const Convolve& how, Loc loc) {
  check_axes(name, "stride", how.stride, how.count, 1, loc);
  check_axes(name, "padding", how.padding, how.count, 0, loc);
  check_axes(name, "dilation", how.dilation, how.count, 1, loc);
  for (int axis = 0; axis < how.count; ++axis) {
    const std::int64_t stride = how.stride[axis];
    for (const std::int64_t each : {stride, how.padding[axis], how.dilation[axis]})
      check_extent(name, "a number of the options", each, loc);
    if (how.same && stride != 1) fail(name, loc, "same padding needs a stride of 1, it is ", stride);
    if (!how.output_padding) continue;
    const std::int64_t more = how.output_padding[axis];
    if (more < 0 || (more >= stride && more >= how.dilation[axis]))
      fail(name, loc, "output_padding must be less than the stride or the dilation, it is ", more);
  }
}

Tensor convolve(const char* name, const At& x, const At& weight, const At* bias, const Convolve& how) {
  LooseComposite call(name, x.loc);
  const Operands operands(name, x, weight, how.count, "[O,C/groups,kernel...]", call.loc());
  const Convolution attributes = attributes_of(name, how, type_of(operands.weight).shape, call.loc());
  const Dim channels = type_of(operands.weight).shape[0];
  const Tensor own = Operands::bias_of(name, bias, channels, call.loc());
  const DType dtype = type_of(operands.x).dtype;
  Type wanted = type_of(operands.x);
  wanted.dtype = operands.dtype_of_result(own);
  const auto body = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return with_bias(record(Op::convolution, {x, weight}, attributes, wanted, call.loc()), bias, dtype);
  };
  if (wanted.dtype == dtype) return operands.finish(body(operands.x, operands.weight, own));
  const ConvolutionCall called_as{called(name),    attributes.strides,  attributes.low,
                                  attributes.high, attributes.dilation, attributes.groups};
  const Tensor factors[] = {operands.x, operands.weight};
  (void)infer(Op::convolution, factors, attributes, {}, call.loc());  // an error is the user's, not a body's
  return operands.finish(
      composite_with(differentiate_convolution, called_as, call.loc(), body, operands.x, operands.weight, own));
}

Tensor convolve_transposed(const char* name, const At& x, const At& weight, const At* bias, const Convolve& how) {
  LooseComposite call(name, x.loc);
  const Operands operands(name, x, weight, how.count, "[C,O/groups,kernel...]", call.loc());
  const Shape kernel = type_of(operands.weight).shape;
  const Convolution attributes = attributes_of(name, how, kernel, call.loc());
  Type wanted = type_of(operands.x);
  if (!(wanted.shape[1] == kernel[0]) || how.groups < 1 || kernel[0].constant() % how.groups != 0)
    fail(name, call.loc(), "the input has ", dims::to_string(wanted.shape[1]), " channels, the weight takes ",
         dims::to_string(kernel[0]), " in ", counted(how.groups, "group", "groups"));
  wanted.shape[1] = kernel[1] * Dim(how.groups);
  for (int axis = 0; axis < how.count; ++axis) {
    const std::int64_t stride = how.stride[axis], dilation = how.dilation[axis], more = how.output_padding[axis];
    Dim& size = wanted.shape[axis + 2];
    size = (size - Dim(1)) * stride - Dim(2 * how.padding[axis]) + Dim(dilation) * (kernel[axis + 2] - Dim(1)) +
           Dim(more + 1);
    if (size < Dim(1)) fail(name, call.loc(), "the result has no elements along axis ", axis + 2);
  }
  // The kernel reaches as far beyond the end as the padding; after that are zeros.
  Convolution within = attributes;
  Type reached = wanted;
  for (int axis = 0; axis < how.count; ++axis) {
    const std::int64_t covered = std::min(how.output_padding[axis], how.padding[axis]);
    within.high[static_cast<std::size_t>(axis)] -= covered;
    reached.shape[axis + 2] = wanted.shape[axis + 2] - Dim(how.output_padding[axis] - covered);
  }
  const Tensor own = Operands::bias_of(name, bias, wanted.shape[1], call.loc());
  reached.dtype = operands.dtype_of_result(own);
  Tensor result = record(Op::convolution_input_gradient, {operands.x, operands.weight}, within, reached, call.loc());
  for (int axis = 0; axis < how.count; ++axis)
    if (const std::int64_t behind = how.output_padding[axis] - how.padding[axis]; behind > 0)
      result = pad(result, axis + 2, 0, behind);
  return operands.finish(with_bias(result, own, type_of(operands.x).dtype));
}

}  // namespace weft::detail
