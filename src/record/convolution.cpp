// Convolutions of 1 to 3 axes, transposed ones, and pooling, which is windows and a reduction.
#include "weft/convolution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/fail.hpp"
#include "ir/infer.hpp"
#include "record/composite.hpp"
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

// `what` of each axis is at least `least`.
void check_axes(const char* name, const char* what, const std::int64_t* numbers, int count, std::int64_t least,
                Loc loc) {
  for (int axis = 0; axis < count; ++axis)
    if (numbers[axis] < least)
      fail(name, loc, what, least > 0 ? " must be positive, it is " : " must not be negative, it is ", numbers[axis]);
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
  // The kernel reaches as far beyond the end as the padding; behind that are zeros.
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

// ---- pooling --------------------------------------------------------------------------------------------------------

namespace {

// A batch may be of nothing; channels and sizes may not, as in PyTorch.
void check_elements(const char* name, const Type& type, int from, Loc loc) {
  for (int axis = from; axis < type.shape.rank(); ++axis)
    if (type.shape[axis] == Dim(0)) fail(name, loc, "of no elements along axis ", axis, ": ", to_string(type));
}

struct Pooled {
  Tensor windows;  // [N, C, k, S', k, S', ...]
  AxisSet places;  // the axes of places in a window
  Tensor inside;   // where windows lie over elements, not over padding; broadcasts to `windows`. Undefined: everywhere
};

// Zeros, or what `fill` says, around an axis, and how many windows it then has. Under ceil_mode the last window begins
// before the padding behind: there are floor((last + more) / stride) + 1 of them, where `last` is the place of the last
// window that ends inside and `more` = min(stride - 1, window - 1 - padding). That is PyTorch's count, and asks nothing
// of a symbolic size; whether the size divides is not asked either: a symbolic axis gets all `more` elements.
struct AxisOfPool {
  std::int64_t kernel, stride, padding, dilation;
  Dim beyond, count;  // elements behind the padding that windows of ceil_mode reach; windows
};
AxisOfPool axis_of_pool(const char* name, const Pool& how, int axis, Dim size, Loc loc) {
  AxisOfPool it{how.kernel[axis], how.stride[axis], how.padding[axis], how.dilation ? how.dilation[axis] : 1, 0, 0};
  if (it.stride == 0) it.stride = it.kernel;
  const Dim window = Dim(it.dilation) * Dim(it.kernel - 1) + Dim(1), last = size + Dim(2) * Dim(it.padding) - window;
  const std::int64_t more =
      how.ceil_mode && !window.beyond() ? std::min(it.stride - 1, window.constant() - 1 - it.padding) : 0;
  const bool fits = !window.beyond() && !(last + Dim(more) < Dim(0));
  if (!fits)
    fail(name, loc, "a window of ", dims::to_string(window), " does not fit into ", dims::to_string(size),
         " elements and padding");
  it.count = (last + Dim(more)) / Dim(it.stride) + Dim(1);
  if (!it.count.same(last / Dim(it.stride) + Dim(1))) it.beyond = more;
  return it;
}

Tensor in_windows(const Tensor& x, int axis, const AxisOfPool& it, Loc loc) {
  return record(Op::windows, {x}, Windows{it.kernel, it.stride, it.dilation, static_cast<std::uint8_t>(axis)}, {}, loc);
}

Pooled pooled(const char* name, Tensor x, const Pool& how, const At& fill, Loc loc) {
  const int rank = type_of(x).shape.rank(), first = rank - how.count;
  if ((first != 1 && first != 2) || type_of(x).dtype == DType::boolean)
    fail(name, loc, "takes numbers [N,C,sizes...] or [C,sizes...] of ", counted(how.count, "size", "sizes"), ": ",
         to_string(type_of(x)));
  check_elements(name, type_of(x), first - 1, loc);
  check_pool(name, how, loc);
  Shape widths;
  bool is_padded = false;
  std::vector<AxisOfPool> axes;
  for (int i = how.count; i-- > 0;) {
    const AxisOfPool& it = axes.emplace_back(axis_of_pool(name, how, i, type_of(x).shape[first + i], loc));
    widths.push_back(it.padding), widths.push_back(Dim(it.padding) + it.beyond);
    is_padded |= it.padding > 0 || !it.beyond.same(Dim(0));
  }
  Pooled result;
  for (int i = 0; is_padded && i < how.count; ++i) {
    const AxisOfPool& it = axes[static_cast<std::size_t>(how.count - 1 - i)];
    Tensor along = full({}, true, {DType::boolean, type_of(x).device});
    along = expand(along, {type_of(x).shape[first + i]});
    along = in_windows(pad(along, 0, it.padding, Dim(it.padding) + it.beyond), 0, it, loc);
    Shape shape;
    for (int axis = 0; axis < rank + how.count; ++axis) {
      const int own = axis - first - 2 * i;
      shape.push_back(own == 0 || own == 1 ? type_of(along).shape[own] : Dim(1));
    }
    along = reshape_to(along, shape, loc);
    result.inside = i == 0 ? along : result.inside & along;
  }
  if (is_padded) x = pad(x, widths, Pads::constant, fill);
  for (int i = how.count; i-- > 0;)
    x = in_windows(x, first + i, axes[static_cast<std::size_t>(how.count - 1 - i)], loc);
  result.windows = x;
  for (int i = 0; i < how.count; ++i) result.places.insert(first + 2 * i);
  return result;
}

Axes list_of(const AxisSet& axes) {
  std::vector<int> list;
  for (int i = 0; i < max_rank; ++i)
    if (axes[i]) list.push_back(i);
  return Axes(list);
}

// Of windows and the greatest of each: the number, of sizes that are kept as 1, of its first place, or of the first
// NaN; and numbers of all places, which broadcast to the windows, in a dtype that is quick to compare.
struct Places {
  Tensor numbers, first;
};
Places first_greatest(const Tensor& windows, const Tensor& greatest, const Tensor& inside, const AxisSet& reduced) {
  const Type type = type_of(windows);
  Shape kept = type.shape;
  Dim places = 1;
  for (int i = 0; i < kept.rank(); ++i) {
    if (!reduced[i]) continue;
    places = places * type.shape[i];
    kept[i] = 1;
  }
  const bool few = places.is_constant() && places.constant() < INT16_MAX;
  const DType number = few ? DType::i16 : DType::i64;
  Tensor place = full({}, 0, {DType::i64, type.device});
  for (int i = 0; i < kept.rank(); ++i)
    if (reduced[i]) {
      Shape along;
      for (int axis = 0; axis < kept.rank(); ++axis) along.push_back(axis == i ? type.shape[i] : Dim(1));
      place = place * type.shape[i] + positions(i, along, type.device, {});
    }
  place = cast(place, number);
  Tensor is_top = (windows == reshape(greatest, kept)) | isnan(windows);
  if (inside.defined()) is_top = is_top & inside;  // padding may be as great
  return {place, amin(where(is_top, place, full({}, places, {number, type.device})), list_of(reduced), true)};
}

// The first place of each window that is its greatest element, or the first NaN.
void differentiate_greatest(const CallValues& call, std::span<Tensor> gradients) {
  const AxisSet& reduced = call.called.as<ReducedCall>().axes;
  const Tensor inside = call.operands.size() > 1 ? call.operands[1] : Tensor();
  const Places places = first_greatest(call.operands[0], call.results[0], inside, reduced);
  gradients[0] = where(places.numbers == places.first, reshape(call.gradients[0], type_of(places.first).shape), 0);
}

Tensor greatest(const Pooled& in, Loc loc) {
  const ReducedCall over{called("greatest_of_windows"), in.places};
  const auto body = [&](const Tensor& windows, const auto&...) { return amax(windows, list_of(in.places)); };
  if (!in.inside.defined()) return composite_with(differentiate_greatest, over, loc, body, in.windows);
  return composite_with(differentiate_greatest, over, loc, body, in.windows, in.inside);
}

At lowest(const Tensor& x) {
  switch (type_of(x).dtype) {
    case DType::i8: return std::numeric_limits<std::int8_t>::min();
    case DType::i16: return std::numeric_limits<std::int16_t>::min();
    case DType::i32: return std::numeric_limits<std::int32_t>::min();
    case DType::i64: return std::numeric_limits<std::int64_t>::min();
    case DType::u8:
    case DType::u16:
    case DType::u32: return 0;
    default: return -INFINITY;
  }
}

}  // namespace

void check_pool(const char* name, const Pool& how, Loc loc) {
  check_axes(name, "kernel", how.kernel, how.count, 1, loc);
  check_axes(name, "stride", how.stride, how.count, 0, loc);  // 0: the kernel's size
  check_axes(name, "padding", how.padding, how.count, 0, loc);
  if (how.dilation) check_axes(name, "dilation", how.dilation, how.count, 1, loc);
  for (int axis = 0; axis < how.count; ++axis)
    if (how.padding[axis] > how.kernel[axis] / 2)
      fail(name, loc, "padding must be at most half of the kernel's ", how.kernel[axis], ", it is ", how.padding[axis]);
}
void check_adaptive_pool(const char* name, int count, const std::int64_t* sizes, Loc loc) {
  check_axes(name, "sizes", sizes, count, 1, loc);
}

Tensor max_pool(const char* name, const At& x, const Pool& how) {
  LooseComposite call(name, x.loc);
  const Tensor value = resolve(x, name);
  const Pooled in = pooled(name, value, how, lowest(value), call.loc());
  return greatest(in, call.loc());
}

ValuesAndIndices max_pool_with_indices(const char* name, const At& x, const Pool& how) {
  LooseComposite call(name, x.loc);
  const Tensor value = resolve(x, name);
  const Pooled in = pooled(name, value, how, lowest(value), call.loc());
  const Tensor values = greatest(in, call.loc());
  Tensor place =
      cast(first_greatest(stop_gradient(in.windows), stop_gradient(values), in.inside, in.places).first, DType::i64);
  const Shape shape = type_of(values).shape, sizes = type_of(value).shape;
  const int first = shape.rank() - how.count;
  place = reshape_to(place, shape, call.loc());
  // Numbers in the window, the last axis first, and what they are along each axis.
  Tensor index;
  Dim step = 1;
  for (int i = how.count; i-- > 0;) {
    const AxisOfPool it = axis_of_pool(name, how, i, sizes[first + i], call.loc());
    const Tensor window = positions(first + i, shape, type_of(value).device, call.loc());
    const Tensor own = remainder(place, it.kernel) * it.dilation + window * it.stride - it.padding;
    place = floor_divide(place, it.kernel);
    index = index.defined() ? index + own * step : own;
    step = step * sizes[first + i];
  }
  return {values, index};
}

Tensor avg_pool(const char* name, const At& x, const Pool& how) {
  LooseComposite call(name, x.loc);
  const Tensor value = resolve(x, name);
  const DType dtype = is_floating(type_of(value).dtype) ? type_of(value).dtype : DType::f32, wide = computed_in(dtype);
  const Pooled in = pooled(name, cast(value, dtype), how, 0, call.loc());
  Tensor total = sum(cast(in.windows, wide), list_of(in.places));
  if (how.divisor != 0) return cast(total / static_cast<double>(how.divisor), dtype);
  // Of each axis the elements of its windows, as a vector; their products are the counts. Sums are divided once, so
  // that a count that is the same everywhere gives the same bits as a number.
  const Shape shape = type_of(total).shape, sizes = type_of(value).shape;
  const int first = shape.rank() - how.count;
  double all = 1;
  Tensor product;
  for (int i = 0; i < how.count; ++i) {
    const AxisOfPool it = axis_of_pool(name, how, i, sizes[first + i], call.loc());
    const bool differs = !it.beyond.same(Dim(0)) || (!how.count_include_pad && it.padding > 0);
    if (!differs) {
      all *= static_cast<double>(it.kernel);
      continue;
    }
    const Dim inside = how.count_include_pad ? sizes[first + i] + Dim(2 * it.padding) : sizes[first + i];
    const Dim before = how.count_include_pad ? Dim(0) : Dim(it.padding);
    const Tensor element = expand(full({}, 1, {wide, type_of(value).device}), {inside});
    const Tensor counts = sum(in_windows(pad(element, 0, before, before + it.beyond), 0, it, call.loc()), 0);
    Shape along;
    for (int axis = 0; axis < shape.rank(); ++axis) along.push_back(axis == first + i ? shape[axis] : Dim(1));
    const Tensor factor = reshape(counts, along);
    product = product.defined() ? product * factor : factor;
  }
  return cast(product.defined() ? total / (product * all) : total / all, dtype);
}

Tensor adaptive_pool(const char* name, const At& given, int count, const std::int64_t* sizes, bool of_greatest) {
  LooseComposite call(name, given.loc);
  Tensor x = resolve(given, name);
  const int first = type_of(x).shape.rank() - count;
  if ((first != 1 && first != 2) || !is_floating(type_of(x).dtype))
    fail(name, call.loc(), "takes floating numbers [N,C,sizes...] or [C,sizes...] of ", counted(count, "size", "sizes"),
         ": ", to_string(type_of(x)));
  // Of no channels PyTorch refuses the greatest in a batch.
  check_elements(name, type_of(x), of_greatest && first == 2 ? 1 : first, call.loc());
  check_adaptive_pool(name, count, sizes, call.loc());
  const DType dtype = type_of(x).dtype;
  x = cast(x, computed_in(dtype));
  for (int i = 0; i < count; ++i) {
    const int axis = first + i;
    const Dim size = type_of(x).shape[axis], wanted = sizes[i];
    if (size.same(wanted)) continue;
    Shape cut = type_of(x).shape;
    if ((size % wanted).same(Dim(0))) {  // windows of equal size, which of a symbolic size is not asked
      cut[axis] = wanted;
      Shape parts;
      for (int each = 0; each < cut.rank(); ++each) {
        parts.push_back(cut[each]);
        if (each == axis) parts.push_back(size / wanted);
      }
      AxisSet places;
      places.insert(axis + 1);
      x = of_greatest ? greatest({reshape(x, parts), places, {}}, call.loc()) : mean(reshape(x, parts), axis + 1);
      continue;
    }
    // [wanted, size]: what belongs to each window.
    const Shape pairs = Shape::of(wanted, size);
    const Device device = type_of(x).device;
    const Tensor window = positions(0, pairs, device, call.loc()), element = positions(1, pairs, device, call.loc());
    const Tensor begin = floor_divide(window * size, wanted),
                 end = floor_divide((window + 1) * size + (wanted - Dim(1)), wanted);
    const Tensor inside = (element >= begin) & (element < end), last = movedim(x, axis, -1);
    if (of_greatest) {
      AxisSet places;
      places.insert(type_of(last).shape.rank());
      x = greatest({where(inside, unsqueeze(last, -2), -INFINITY), places, inside}, call.loc());
    } else {
      const Tensor count = cast(sum(inside, 1), type_of(x).dtype);
      x = sum(where(inside, unsqueeze(last, -2), 0), -1) / count;
    }
    x = movedim(x, -1, axis);
  }
  return cast(x, dtype);
}

}  // namespace weft::detail
