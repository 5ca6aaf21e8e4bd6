#include "runtime/convolution.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace weft::runtime {

namespace {

std::array<std::int64_t, 5> contiguous(const Shape& shape) {
  std::array<std::int64_t, 5> strides = {};
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    if (axis > 0) step *= shape[axis].constant();
  }
  return strides;
}

}  // namespace

std::optional<ConvolutionSizes> ConvolutionSizes::of(Convolved result, DType dtype, const Shape& a, const Shape& b,
                                                     const Shape& c, List strides, List low, List high, List dilation,
                                                     Int groups) {
  const Shape* shapes[3] = {};  // by value
  for (int i = 0; i < 3; ++i) shapes[static_cast<int>(value_of_operand(result, i))] = i == 0 ? &a : i == 1 ? &b : &c;
  const Shape &output = *shapes[static_cast<int>(Convolved::output)],
              &input = *shapes[static_cast<int>(Convolved::input)],
              &weight = *shapes[static_cast<int>(Convolved::weight)];
  for (const Shape* shape : shapes)
    for (int axis = 0; axis < shape->rank(); ++axis)
      if (!(*shape)[axis].is_constant() && (axis > 0 || shape == &weight)) return std::nullopt;
  ConvolutionSizes sizes;
  sizes.result = result;
  sizes.dtype = dtype;
  sizes.axes = input.rank() - 2;
  sizes.batch = input[0].is_constant() ? input[0].constant() : -1;
  sizes.inputs = input[1].constant(), sizes.outputs = weight[0].constant();
  sizes.groups = groups;
  const auto put = [](std::array<Int, 3>& to, List from) { std::copy(from.begin(), from.end(), to.begin()); };
  put(sizes.strides, strides), put(sizes.low, low), put(sizes.high, high), put(sizes.dilation, dilation);
  for (int axis = 0; axis < sizes.axes; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    sizes.size[i] = input[axis + 2].constant();
    sizes.kernel[i] = weight[axis + 2].constant();
    sizes.positions[i] = output[axis + 2].constant();
  }
  sizes.input_strides = contiguous(input);
  sizes.weight_strides = contiguous(weight);
  sizes.output_strides = contiguous(output);
  return sizes;
}

bool ConvolutionSizes::is_empty() const {
  bool empty = batch == 0 || inputs == 0 || outputs == 0;
  for (int axis = 0; axis < axes; ++axis) empty |= size[static_cast<std::size_t>(axis)] == 0;
  return empty;
}

ConvolutionSizes::Int ConvolutionSizes::multiplications() const {
  Int count = outputs * (inputs / groups);
  for (int axis = 0; axis < axes; ++axis)
    count *= kernel[static_cast<std::size_t>(axis)] * positions[static_cast<std::size_t>(axis)];
  return count;
}

bool ConvolutionSizes::operator<(const ConvolutionSizes& other) const {
  const auto all = [](const ConvolutionSizes& s) {
    return std::tie(s.result, s.dtype, s.axes, s.batch, s.inputs, s.outputs, s.groups, s.size, s.kernel, s.positions,
                    s.strides, s.low, s.high, s.dilation, s.input_strides, s.weight_strides, s.output_strides);
  };
  return all(*this) < all(other);
}

bool convolution_reads(const Shape& shape, std::span<const Dim> strides) {
  struct Axis {
    std::int64_t stride, size;
  };
  std::vector<Axis> axes;
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim size = shape[i], stride = strides[static_cast<std::size_t>(i)];
    if (size.same(Dim(1))) continue;
    if (!stride.is_constant() || (!size.is_constant() && i > 0)) return false;
    axes.push_back({stride.constant(), size.is_constant() ? size.constant() : INT64_MAX});
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  std::int64_t least = 1;
  for (const Axis& axis : axes) {
    if (axis.stride < least) return false;
    if (axis.size == INT64_MAX) return &axis == &axes.back();
    least = axis.stride * axis.size;
  }
  return true;
}

}  // namespace weft::runtime
