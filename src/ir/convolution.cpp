#include "ir/convolution.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft {
namespace {

using Numbers = List<std::int64_t>;

std::uint8_t axis_number(int axis) { return static_cast<std::uint8_t>(axis); }

// A shape from parts of others.
Shape joined(std::initializer_list<std::span<const Dim>> parts) {
  Shape shape;
  for (const std::span<const Dim> part : parts)
    for (const Dim size : part) shape.push_back(size);
  return shape;
}
// The sizes after the first two.
std::span<const Dim> behind_channels(const Shape& shape) {
  return {shape.begin() + 2, static_cast<std::size_t>(shape.rank() - 2)};
}
Dim product(std::span<const Dim> sizes) {
  Dim all = 1;
  for (const Dim size : sizes) all = all * size;
  return all;
}

class Decomposition {
 public:
  // `dtype`: of the result.
  Decomposition(const Builder& build, const Convolution& c, DType dtype)
      : build_(build), c_(c), dtype_(dtype), axes_(static_cast<int>(c.strides.count)) {}

  Tensor forward(const Tensor& input, const Tensor& weight, const Shape& result) const {
    if (by_elements(weight)) return sum_of_elements(input, weight, result);
    const Shape &from = type_of(input).shape, &kernel = type_of(weight).shape;
    const Dim batch = from[0], groups = c_.groups, positions = product(behind_channels(result)),
              depth = kernel[1] * product(behind_channels(kernel));
    // [N, groups, depth, positions]: no axis for one group, so that the result's axes are those of the product.
    const bool grouped = c_.groups != 1;
    const auto with_groups = [&](Dim rows, Dim columns) {
      return grouped ? Shape::of(batch, groups, rows, columns) : Shape::of(batch, rows, columns);
    };
    Tensor columns = windows(input, behind_channels(kernel));
    columns = build_.reshape(build_.permute(columns, order({0, 1}, {})), with_groups(depth, positions));
    Shape matrices = with_groups(kernel[0] / groups, depth), one = matrices;
    one[0] = Dim(1);
    const Tensor left = build_.expand(build_.reshape(weight, one), matrices);
    return build_.reshape(multiply(left, columns), result);
  }

  // A convolution with the flipped weights, their channels exchanged, of the gradient with zeros between its elements.
  Tensor input_gradient(const Tensor& of_output, const Tensor& of_kernel, const Shape& input) const {
    const Shape kernel = type_of(of_kernel).shape, output = type_of(of_output).shape;
    Tensor gradient = of_output, weight = of_kernel;
    Convolution plain = c_;
    for (int i = 0; i < axes_; ++i) {
      const auto axis = static_cast<std::size_t>(i);
      const std::int64_t reach = c_.dilation[axis] * (kernel[i + 2].constant() - 1);
      // Padding beyond the kernel's reach is cut off again: its elements read no input.
      const std::int64_t cut_low = std::max<std::int64_t>(0, c_.low[axis] - reach),
                         cut_high = std::max<std::int64_t>(0, c_.high[axis] - reach);
      const Dim positions = output[i + 2], length = input[i + 2] + Dim(reach),
                stretched = (positions - Dim(1)) * Dim(c_.strides[axis]) + Dim(1);
      const Dim before = reach - c_.low[axis] + cut_low, after = length + Dim(cut_low + cut_high) - before - stretched;
      gradient = pad(gradient, {axis_number(i + 2), before, after, c_.strides[axis] - 1});
      if (cut_low + cut_high > 0) gradient = build_.slice(gradient, {axis_number(i + 2), cut_low, 1}, length);
      if (kernel[i + 2].constant() > 1)
        weight = build_.slice(weight, {axis_number(i + 2), kernel[i + 2] - Dim(1), -1}, kernel[i + 2]);
      plain.strides[axis] = 1;
      plain.low[axis] = plain.high[axis] = 0;
    }
    const Dim groups = c_.groups, outputs = kernel[0] / groups;
    AxisList exchanged;
    for (int i = 0; i < axes_ + 3; ++i) exchanged.push_back(axis_number(i == 1 ? 2 : i == 2 ? 1 : i));
    const Dim split[] = {groups, outputs, kernel[1]}, merged[] = {kernel[1] * groups, outputs};
    weight = build_.reshape(weight, joined({split, behind_channels(kernel)}));
    weight = build_.reshape(build_.permute(weight, exchanged), joined({merged, behind_channels(kernel)}));
    return Decomposition(build_, plain, dtype_).forward(gradient, weight, input);
  }

  Tensor weight_gradient(const Tensor& input, const Tensor& gradient, const Shape& weight) const {
    const Shape &from = type_of(input).shape, &positions = type_of(gradient).shape;
    if (by_elements(weight)) return sum_of_positions(input, gradient, weight);
    const Dim groups = c_.groups, count = from[0] * product(behind_channels(positions)),
              depth = weight[1] * product(behind_channels(weight));
    const bool grouped = c_.groups != 1;
    const auto with_groups = [&](Dim rows) {
      return grouped ? Shape::of(groups, rows, count) : Shape::of(rows, count);
    };
    // Everything that is summed over is one axis: the batch too.
    const Tensor columns =
        build_.reshape(build_.permute(windows(input, behind_channels(weight)), order({1}, {0})), with_groups(depth));
    AxisList channels_first, swapped;
    for (int i = 0; i < axes_ + 2; ++i) channels_first.push_back(axis_number(i == 0 ? 1 : i == 1 ? 0 : i));
    if (grouped) swapped.push_back(0);
    swapped.push_back(axis_number(grouped + 1)), swapped.push_back(axis_number(grouped));
    const Tensor rows = build_.reshape(build_.permute(gradient, channels_first), with_groups(weight[0] / groups));
    return build_.reshape(multiply(rows, build_.permute(columns, swapped)), weight);
  }

 private:
  // Many groups of one input channel: a matrix product for each would have one row of depth.
  bool by_elements(const Shape& weight) const { return c_.groups > 1 && weight[1].same(Dim(1)); }
  bool by_elements(const Tensor& weight) const { return by_elements(type_of(weight).shape); }

  Tensor multiply(const Tensor& left, const Tensor& right) const {
    return build_.make(Op::matmul, {left, right}, {}, Type{dtype_, false, {}, type_of(left).shape});
  }
  Tensor pad(const Tensor& value, const Pad& zeros) const {
    if (zeros.before.same(Dim(0)) && zeros.after.same(Dim(0)) && zeros.interior == 0) return value;
    return build_.make(Op::pad, {value}, zeros);
  }

  // The padded input [N, C, place 1, window 1, place 2, window 2, ...].
  Tensor windows(Tensor input, std::span<const Dim> kernel) const {
    for (int i = axes_; i-- > 0;) {
      const auto axis = static_cast<std::size_t>(i);
      input = pad(input, {axis_number(i + 2), c_.low[axis], c_.high[axis], 0});
    }
    for (int i = axes_; i-- > 0;) {
      const auto axis = static_cast<std::size_t>(i);
      input = build_.make(Op::windows, {input},
                          Windows{kernel[axis].constant(), c_.strides[axis], c_.dilation[axis], axis_number(i + 2)});
    }
    return input;
  }
  // Of the axes of `windows`: some, all places, some, all windows.
  AxisList order(std::initializer_list<std::uint8_t> first, std::initializer_list<std::uint8_t> between) const {
    AxisList axes;
    for (const std::uint8_t axis : first) axes.push_back(axis);
    for (int i = 0; i < axes_; ++i) axes.push_back(axis_number(2 + 2 * i));
    for (const std::uint8_t axis : between) axes.push_back(axis);
    for (int i = 0; i < axes_; ++i) axes.push_back(axis_number(3 + 2 * i));
    return axes;
  }

  // 16-bit floats as f32: their products and sums are rounded once. An input channel for each output channel.
  Tensor widened(const Tensor& value) const {
    const DType dtype = type_of(value).dtype;
    return build_.cast(value, dtype == DType::f64 ? dtype : DType::f32);
  }
  Tensor repeated(const Tensor& input, Dim outputs) const {
    const Shape& from = type_of(input).shape;
    const Dim times = outputs / Dim(c_.groups);
    if (times.same(Dim(1))) return input;
    const Dim apart[] = {from[0], from[1], Dim(1)}, several[] = {from[0], from[1], times},
              merged[] = {from[0], outputs};
    const std::span<const Dim> sizes = behind_channels(from);
    return build_.reshape(build_.expand(build_.reshape(input, joined({apart, sizes})), joined({several, sizes})),
                          joined({merged, sizes}));
  }

  // [N, O, places..., windows...], summed over the places.
  Tensor sum_of_elements(const Tensor& input, const Tensor& weight, const Shape& result) const {
    const Shape& kernel = type_of(weight).shape;
    const Tensor read =
        build_.permute(windows(repeated(widened(input), kernel[0]), behind_channels(kernel)), order({0, 1}, {}));
    const Dim lead[] = {Dim(1), kernel[0]};
    const Shape ones = Shape::of(1, 1, 1);
    const Shape thin = joined({lead, behind_channels(kernel), {ones.begin(), static_cast<std::size_t>(axes_)}});
    const Tensor factor = build_.expand(build_.reshape(widened(weight), thin), type_of(read).shape);
    AxisSet places;
    for (int i = 0; i < axes_; ++i) places.insert(2 + i);
    const Tensor sums = build_.reshape(build_.sum(build_.mul(read, factor), places), result);
    return build_.cast(sums, dtype_);
  }
  // [O, places..., N, windows...], summed over the batch and the windows.
  Tensor sum_of_positions(const Tensor& input, const Tensor& gradient, const Shape& weight) const {
    const Shape& positions = type_of(gradient).shape;
    const Tensor read =
        build_.permute(windows(repeated(widened(input), weight[0]), behind_channels(weight)), order({1}, {0}));
    AxisList channels_first;
    for (int i = 0; i < axes_ + 2; ++i) channels_first.push_back(axis_number(i == 0 ? 1 : i == 1 ? 0 : i));
    const Dim lead[] = {positions[1]}, batch[] = {positions[0]};
    const Shape ones = Shape::of(1, 1, 1);
    const Shape thin =
        joined({lead, {ones.begin(), static_cast<std::size_t>(axes_)}, batch, behind_channels(positions)});
    Tensor factor = build_.reshape(build_.permute(widened(gradient), channels_first), thin);
    factor = build_.expand(factor, type_of(read).shape);
    AxisSet summed;
    for (int i = 0; i <= axes_; ++i) summed.insert(1 + axes_ + i);
    const Tensor sums = build_.reshape(build_.sum(build_.mul(read, factor), summed), weight);
    return build_.cast(sums, dtype_);
  }

  Builder build_;
  const Convolution& c_;
  DType dtype_;
  int axes_;
};

}  // namespace

Tensor convolution_by_products(const Node& node, const Tensor& a, const Tensor& b) {
  const Builder build(node);
  if (node.type.shape.element_count().same(Dim(0))) {  // windows over no elements are none
    Type zero = node.type;
    zero.shape = {};
    return build.expand(build.constant(Constant::number(zero.dtype, 0), zero), node.type.shape);
  }
  const Decomposition decomposition(build, node.attributes<Convolution>(), node.type.dtype);
  switch (node.op) {
    case Op::convolution: return decomposition.forward(a, b, node.type.shape);
    case Op::convolution_input_gradient: return decomposition.input_gradient(a, b, node.type.shape);
    case Op::convolution_weight_gradient: return decomposition.weight_gradient(a, b, node.type.shape);
    default: WEFT_CHECK(false, info(node.op).name, " is no convolution");
  }
}

}  // namespace weft
