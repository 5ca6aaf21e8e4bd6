// The gradient of a maximum pool, said place by place of a window, and phase by phase of the strides: over values of
// the size of the result, which the eager executor takes through all of it block by block.
#include <algorithm>
#include <vector>

#include "record/pooling.hpp"

namespace weft::detail {

namespace {

Tensor part_of(const Tensor& x, int axis, Dim start, Dim length, std::int64_t step = 1) {
  Type type = type_of(x);
  type.shape[axis] = length;
  return record(Op::slice, {x}, Slice{static_cast<std::uint8_t>(axis), start, step}, type, {});
}

// f(places along the axes of `sizes`, number of the place), from the last place to the first.
template <class F>
void for_places(const List<std::int64_t>& sizes, F f) {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes) all *= size;
  for (std::int64_t number = all; number-- > 0;) {
    List<std::int64_t> place = sizes;
    for (std::size_t i = sizes.count, rest = static_cast<std::size_t>(number); i-- > 0;) {
      place[i] = static_cast<std::int64_t>(rest) % sizes[i];
      rest /= static_cast<std::size_t>(sizes[i]);
    }
    f(place, number);
  }
}

// Of each window the number, from 1, of its first place that is its greatest element, or of the first NaN. i32.
Tensor number_of_greatest(const PoolCall& pool, const Tensor& x, const Tensor& greatest, const Tensor& inside) {
  const Type type = type_of(greatest);
  const int first = type.shape.rank() - pool.kernel.count;
  Tensor number = full(type.shape, 0, {DType::i32, type.device});
  for_places(pool.kernel, [&](const List<std::int64_t>& place, std::int64_t i) {
    Tensor one = x, counts = inside;
    for (int axis = 0; axis < pool.kernel.count; ++axis) {
      const auto k = static_cast<std::size_t>(axis);
      one = part_of(one, first + axis, place[k] * pool.dilation[k], type.shape[first + axis], pool.strides[k]);
      if (inside.defined()) counts = part_of(counts, first + 2 * axis, place[k], 1);
    }
    Tensor is_top = (one == greatest) | isnan(one);
    if (inside.defined()) {  // padding may be as great
      Shape shape = type.shape;
      for (int axis = 0; axis < first; ++axis) shape[axis] = 1;
      is_top = is_top & reshape_to(counts, shape, {});
    }
    number = where(is_top, full({}, i + 1, {DType::i32, type.device}), number);
  });
  return number;
}

}  // namespace

// An element at stride * q + r is in the windows q - place' of the places that are r + stride * place'. So elements of
// one r are sums of shifted gradients, each where its window has its greatest; those of all r lie in turn.
void differentiate_max_pool(const CallValues& call, std::span<Tensor> gradients) {
  const auto& pool = call.called.as<PoolCall>();
  const Type type = type_of(call.operands[0]);
  const Shape windows = type_of(call.results[0]).shape;
  const int count = pool.kernel.count, first = windows.rank() - count;
  const DType wide = computed_in(type.dtype);
  Tensor number = number_of_greatest(pool, call.operands[0], call.results[0],
                                     call.operands.size() > 1 ? call.operands[1] : Tensor());
  Tensor given = cast(call.gradients[0], wide);
  std::vector<Dim> lengths;
  List<std::int64_t> shifts;  // the greatest
  for (int axis = 0; axis < count; ++axis) {
    const auto k = static_cast<std::size_t>(axis);
    const Dim size = type.shape[first + axis], own = windows[first + axis];
    shifts.push_back(pool.dilation[k] * (pool.kernel[k] - 1) / pool.strides[k]);
    // A symbolic one may be one longer than it has to be.
    const Dim length =
        size.is_constant() ? (size + Dim(pool.strides[k] - 1)) / Dim(pool.strides[k]) : own + Dim(shifts[k] + 1);
    lengths.push_back(length);
    number = pad(number, first + axis, shifts[k], length - own);
    given = pad(given, first + axis, shifts[k], length - own);
  }
  std::vector<Tensor> phases;  // the last one first
  for_places(pool.strides, [&](const List<std::int64_t>& phase, std::int64_t) {
    Tensor total;
    for_places(pool.kernel, [&](const List<std::int64_t>& place, std::int64_t i) {
      Tensor own = number, gradient = given;
      for (int axis = 0; axis < count; ++axis) {
        const auto k = static_cast<std::size_t>(axis);
        const std::int64_t at = place[k] * pool.dilation[k];
        if (at % pool.strides[k] != phase[k]) return;
        const std::int64_t start = shifts[k] - at / pool.strides[k];
        own = part_of(own, first + axis, start, lengths[k]);
        gradient = part_of(gradient, first + axis, start, lengths[k]);
      }
      const Tensor part = where(own == full({}, i + 1, {DType::i32, type.device}), gradient, 0);
      total = total.defined() ? total + part : part;
    });
    if (!total.defined()) {  // between windows
      Type zeros = type;
      zeros.dtype = wide;
      for (int axis = 0; axis < count; ++axis) zeros.shape[first + axis] = lengths[static_cast<std::size_t>(axis)];
      total = constant_like(0, zeros, {});
    }
    phases.push_back(total);
  });
  // [.., length, stride] of the last axis, then of the one before it, ...
  std::reverse(phases.begin(), phases.end());
  for (int axis = count; axis-- > 0;) {
    const auto stride = static_cast<std::size_t>(pool.strides[static_cast<std::size_t>(axis)]);
    std::vector<Tensor> joined;
    for (std::size_t i = 0; i < phases.size(); i += stride)
      joined.push_back(stride == 1 ? phases[i] : stack(std::span(phases).subspan(i, stride), first + axis + 1, {}));
    phases = joined;
    Shape shape = type_of(phases[0]).shape;
    if (stride == 1) continue;
    Shape merged;
    for (int k = 0; k < shape.rank(); ++k) {
      if (k == first + axis + 1) continue;
      merged.push_back(k == first + axis ? shape[k] * shape[k + 1] : shape[k]);
    }
    for (Tensor& each : phases) each = reshape_to(each, merged, {});
  }
  Tensor result = phases[0];
  for (int axis = 0; axis < count; ++axis)
    if (!type_of(result).shape[first + axis].same(type.shape[first + axis]))
      result = part_of(result, first + axis, 0, type.shape[first + axis]);
  gradients[0] = cast(result, type.dtype);
}

}  // namespace weft::detail
