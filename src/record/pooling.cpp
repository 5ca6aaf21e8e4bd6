// Pooling of 1 to 3 axes, which is windows and a reduction.
#include "record/pooling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/fail.hpp"
#include "ir/infer.hpp"
#include "record/composite.hpp"
#include "weft/convolution.hpp"

namespace weft::detail {

namespace {

// A batch may be of nothing; channels and sizes may not, as in PyTorch.
void check_elements(const char* name, const Type& type, int from, Loc loc) {
  for (int axis = from; axis < type.shape.rank(); ++axis)
    if (type.shape[axis] == Dim(0)) fail(name, loc, "of no elements along axis ", axis, ": ", to_string(type));
}

struct PoolWindows {
  Tensor windows;  // [N, C, k, S', k, S', ...]
  AxisSet places;  // the axes of places in a window
  Tensor inside;   // where windows lie over elements, not over padding; broadcasts to `windows`. Undefined: everywhere
  Tensor padded = {};  // [N, C, S, S, ...], what has the windows
};

// Zeros, or what `fill` says, around an axis, and how many windows it then has. Under ceil_mode the last window begins
// before the final padding: there are floor((last + more) / stride) + 1 of them, where `last` is the place of the last
// window that ends inside and `more` = min(stride - 1, window - 1 - padding). That is PyTorch's count, and asks nothing
// of a symbolic size; whether the size divides is not asked either: a symbolic axis gets all `more` elements.
struct AxisOfPool {
  std::int64_t kernel, stride, padding, dilation;
  Dim beyond, count;  // elements after the padding that windows of ceil_mode reach; windows
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

PoolWindows pooled(const char* name, Tensor x, const Pool& how, const At& fill, Loc loc) {
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
  PoolWindows result;
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
  result.padded = x;
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

Tensor greatest(const PoolWindows& in, Loc loc) {
  const ReducedCall over{called("greatest_of_windows"), in.places};
  const auto body = [&](const Tensor& windows, const auto&...) { return amax(windows, list_of(in.places)); };
  if (!in.inside.defined()) return composite_with(differentiate_greatest, over, loc, body, in.windows);
  return composite_with(differentiate_greatest, over, loc, body, in.windows, in.inside);
}

Tensor greatest_of_pool(const PoolWindows& in, const Pool& how, Loc loc) {
  PoolCall pool{called("max_pool")};
  std::int64_t places = 1, phases = 1;
  for (int i = 0; i < how.count; ++i) {
    pool.kernel.push_back(how.kernel[i]);
    pool.strides.push_back(how.stride[i] == 0 ? how.kernel[i] : how.stride[i]);
    pool.dilation.push_back(how.dilation ? how.dilation[i] : 1);
    if (std::max(how.kernel[i], pool.strides[static_cast<std::size_t>(i)]) > most_places_of_pool)
      return greatest(in, loc);
    places *= how.kernel[i], phases *= pool.strides[static_cast<std::size_t>(i)];
  }
  if (places > most_places_of_pool || phases > most_places_of_pool) return greatest(in, loc);
  const auto body = [&](const Tensor& padded, const auto&...) {
    Tensor x = padded;
    const int first = type_of(x).shape.rank() - how.count;
    for (int i = how.count; i-- > 0;) {
      const auto k = static_cast<std::size_t>(i);
      x = record(Op::windows, {x},
                 Windows{pool.kernel[k], pool.strides[k], pool.dilation[k], static_cast<std::uint8_t>(first + i)}, {},
                 loc);
    }
    return amax(x, list_of(in.places));
  };
  if (!in.inside.defined()) return composite_with(differentiate_max_pool, pool, loc, body, in.padded);
  return composite_with(differentiate_max_pool, pool, loc, body, in.padded, in.inside);
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
  return greatest_of_pool(pooled(name, value, how, lowest(value), call.loc()), how, call.loc());
}

ValuesAndIndices max_pool_with_indices(const char* name, const At& x, const Pool& how) {
  LooseComposite call(name, x.loc);
  const Tensor value = resolve(x, name);
  const PoolWindows in = pooled(name, value, how, lowest(value), call.loc());
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
  const PoolWindows in = pooled(name, cast(value, dtype), how, 0, call.loc());
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
  if (!of_greatest && std::all_of(sizes, sizes + count, [](std::int64_t size) { return size == 1; })) {
    std::vector<int> axes(static_cast<std::size_t>(count));  // one walk over all elements
    std::iota(axes.begin(), axes.end(), first);
    return cast(mean(x, Axes(axes), true), dtype);
  }
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
