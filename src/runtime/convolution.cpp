#include "runtime/convolution.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/fail.hpp"

namespace weft::runtime {

std::optional<ConvolutionDims> ConvolutionDims::of(Convolved result, DType dtype, const Shape& a, const Shape& b,
                                                   const Shape& c, List strides, List low, List high, List dilation,
                                                   Int groups) {
  const Shape* shapes[3] = {};  // by value
  for (int i = 0; i < 3; ++i) shapes[static_cast<int>(value_of_operand(result, i))] = i == 0 ? &a : i == 1 ? &b : &c;
  const Shape &output = *shapes[static_cast<int>(Convolved::output)],
              &input = *shapes[static_cast<int>(Convolved::input)],
              &weight = *shapes[static_cast<int>(Convolved::weight)];
  if (!input[1].is_constant() || !output[1].is_constant()) return std::nullopt;
  for (int axis = 0; axis < weight.rank(); ++axis)
    if (!weight[axis].is_constant()) return std::nullopt;
  ConvolutionDims made;
  ConvolutionSizes& sizes = made.fixed_;
  sizes.result = result;
  sizes.dtype = dtype;
  sizes.axes = input.rank() - 2;
  sizes.inputs = input[1].constant(), sizes.outputs = weight[0].constant();
  sizes.groups = groups;
  const auto put = [](std::array<Int, 3>& to, List from) {
    WEFT_CHECK(from.size() <= to.size(), "a convolution of ", from.size(), " axes");
    std::copy(from.begin(), from.end(), to.begin());
  };
  put(sizes.strides, strides), put(sizes.low, low), put(sizes.high, high), put(sizes.dilation, dilation);
  made.dims_.push_back(input[0]);
  for (int axis = 0; axis < sizes.axes; ++axis) {
    sizes.kernel[static_cast<std::size_t>(axis)] = weight[axis + 2].constant();
    made.dims_.push_back(input[axis + 2]);
    made.dims_.push_back(output[axis + 2]);
  }
  for (const Shape* shape : shapes) {
    const std::size_t end = made.dims_.size() + static_cast<std::size_t>(shape->rank());
    made.dims_.resize(end);
    Dim step = 1;
    for (int axis = shape->rank() - 1; axis >= 0; --axis) {
      made.dims_[end - static_cast<std::size_t>(shape->rank() - axis)] = step;
      step = step * (*shape)[axis];
    }
  }
  return made;
}

std::size_t ConvolutionDims::strides_at(Convolved value) const {
  const auto axes = static_cast<std::size_t>(fixed_.axes);
  return 1 + 2 * axes + static_cast<std::size_t>(value) * (axes + 2);
}

void ConvolutionDims::place(Convolved value, const Shape& shape, std::span<const Dim> strides) {
  for (std::size_t axis = 0; axis < strides.size(); ++axis)
    if (!shape[static_cast<int>(axis)].same(Dim(1))) dims_[strides_at(value) + axis] = strides[axis];
}

Dim ConvolutionDims::multiplications() const {
  Dim count = fixed_.outputs * (fixed_.inputs / fixed_.groups);
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(fixed_.axes); ++axis)
    count = count * fixed_.kernel[axis] * dims_[2 + 2 * axis];
  return count;
}

std::optional<ConvolutionSizes> ConvolutionDims::known() const {
  std::vector<Int> values;
  for (const Dim& dim : dims_) {
    if (!dim.is_constant() && &dim != dims_.data()) return std::nullopt;
    values.push_back(dim.is_constant() ? dim.constant() : -1);
  }
  return with(values);
}

ConvolutionSizes ConvolutionDims::with(std::span<const Int> values) const {
  ConvolutionSizes sizes = fixed_;
  sizes.batch = values[0];
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(sizes.axes); ++axis)
    sizes.size[axis] = values[1 + 2 * axis], sizes.positions[axis] = values[2 + 2 * axis];
  for (const Convolved value : {Convolved::output, Convolved::input, Convolved::weight})
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(strides_at(value)), sizes.axes + 2,
                sizes.strides_of(value).begin());
  return sizes;
}

bool ConvolutionSizes::is_sound() const {
  constexpr Int most = Int{1} << 31;
  const auto within = [&](Int number, Int least) { return number >= least && number < most; };
  if (result > Convolved::weight || axes < 1 || axes > 3 || !within(groups, 1) || !within(batch, -1)) return false;
  if (!within(inputs, 0) || !within(outputs, 0) || inputs % groups != 0 || outputs % groups != 0) return false;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(axes); ++axis) {
    if (!within(size[axis], 0) || !within(kernel[axis], 0) || !within(positions[axis], 0)) return false;
    if (!within(strides[axis], 1) || !within(dilation[axis], 1)) return false;
    if (!within(low[axis], 1 - most) || !within(high[axis], 1 - most)) return false;
  }
  return true;
}

bool ConvolutionDims::is_sound() const {
  const auto axes = static_cast<std::size_t>(fixed_.axes);
  if (fixed_.axes < 1 || fixed_.axes > 3 || dims_.size() != 1 + 2 * axes + 3 * (axes + 2)) return false;
  ConvolutionSizes known = fixed_;  // but for the values
  known.batch = 0;
  known.size = known.positions = {};
  return known.is_sound();
}

std::array<std::int64_t, 5> ConvolutionSizes::shape_of(Convolved value) const {
  std::array<Int, 5> shape = {batch, inputs, 1, 1, 1};
  if (value == Convolved::weight) shape[0] = outputs, shape[1] = inputs / groups;
  if (value == Convolved::output) shape[1] = outputs;
  const auto& behind = value == Convolved::input ? size : value == Convolved::weight ? kernel : positions;
  std::copy_n(behind.begin(), axes, shape.begin() + 2);
  return shape;
}

namespace {

constexpr Convolved all_values[] = {Convolved::output, Convolved::input, Convolved::weight};

std::array<std::int64_t, 5> ordered_strides(const ConvolutionSizes& sizes, Convolved value, bool channels_last) {
  const std::array<std::int64_t, 5> shape = sizes.shape_of(value);
  std::array<std::int64_t, 5> strides = {};
  std::int64_t step = 1;
  if (channels_last) strides[1] = step, step *= shape[1];
  for (std::size_t axis = static_cast<std::size_t>(sizes.axes) + 2; axis-- > 0;)
    if (axis != 1 || !channels_last) strides[axis] = step, step *= shape[axis];
  return strides;
}

bool lies(const ConvolutionSizes& sizes, bool channels_last) {
  for (const Convolved value : all_values) {
    const auto shape = sizes.shape_of(value), wanted = ordered_strides(sizes, value, channels_last);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(sizes.axes) + 2; ++axis)
      if (shape[axis] != 1 && sizes.strides_of(value)[axis] != wanted[axis]) return false;
  }
  return true;
}

}  // namespace

void place_channels_last(ConvolutionSizes& sizes) {
  for (const Convolved value : all_values) sizes.strides_of(value) = ordered_strides(sizes, value, true);
}
bool lies_with_channels_last(const ConvolutionSizes& sizes) { return lies(sizes, true); }
bool lies_row_by_row(const ConvolutionSizes& sizes) { return lies(sizes, false); }

bool ConvolutionSizes::is_empty() const {
  bool empty = batch == 0 || inputs == 0 || outputs == 0;
  for (int axis = 0; axis < axes; ++axis) empty |= size[static_cast<std::size_t>(axis)] == 0;
  return empty;
}

bool ConvolutionSizes::operator<(const ConvolutionSizes& other) const {
  const auto all = [](const ConvolutionSizes& s) {
    return std::tie(s.result, s.dtype, s.is_wide, s.has_bias, s.is_tf32, s.axes, s.batch, s.inputs, s.outputs, s.groups,
                    s.size, s.kernel, s.positions, s.strides, s.low, s.high, s.dilation, s.input_strides,
                    s.weight_strides, s.output_strides);
  };
  return all(*this) < all(other);
}

void refuse_sizes(const char* library, const ConvolutionSizes& sizes) {
  const auto text = [&](std::int64_t first, std::int64_t second, const std::array<std::int64_t, 3>& behind) {
    std::string shape = concat_text("[", first, ",", second);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(sizes.axes); ++axis)
      shape += concat_text(",", behind[axis]);
    return shape + "]";
  };
  fail("convolution", {}, library, " does not take ", text(sizes.batch, sizes.inputs, sizes.size), " with ",
       text(sizes.outputs, sizes.inputs / sizes.groups, sizes.kernel), ": compile with dynamic = false");
}

bool convolution_fits(const ConvolutionSizes& sizes, std::span<const std::int64_t> offsets,
                      std::span<const Room> rooms) {
  if (rooms.size() != 3 || sizes.has_bias || sizes.batch < 0 || !sizes.is_sound()) return false;
  const auto reach = [&](int operand) {
    const Convolved value = value_of_operand(sizes.result, operand);
    const auto shape = sizes.shape_of(value), strides = sizes.strides_of(value);
    Reach all(offsets[static_cast<std::size_t>(operand)]);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(sizes.axes) + 2; ++axis)
      all.along(shape[axis], strides[axis]);
    return all;
  };
  return reach(0).is_in(rooms[0], sizes.dtype) && reach(1).is_in(rooms[1], sizes.dtype) &&
         reach(2).may_write(rooms[2], sizes.result_dtype());
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
