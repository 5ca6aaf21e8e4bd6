// Pooling that reads its elements by their numbers: where windows have no common distance, and back from the numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "record/pooling.hpp"
#include "weft/convolution.hpp"

namespace weft::detail {

namespace {

// A value [N,C,sizes...] or [C,sizes...] as planes [B, elements].
struct Planes {
  Tensor value;
  Type type;
  int first = 0;  // the axis of the first size
  Dim batch = 1, elements = 1;
  Shape with(const std::vector<Dim>& sizes) const {
    Shape shape(type.shape.begin(), first);
    for (const Dim size : sizes) shape.push_back(size);
    return shape;
  }
};
Planes planes_of(const char* name, const At& given, int count, Loc loc) {
  Planes it;
  it.value = resolve(given, name);
  it.type = type_of(it.value);
  const int rank = it.type.shape.rank();
  it.first = rank - count;
  if ((it.first != 1 && it.first != 2) || !is_floating(it.type.dtype))
    fail(name, loc, "takes floating numbers [N,C,sizes...] or [C,sizes...] of ", counted(count, "size", "sizes"), ": ",
         to_string(it.type));
  for (int i = 0; i < it.first; ++i) it.batch = it.batch * it.type.shape[i];
  for (int i = it.first; i < rank; ++i) {
    it.elements = it.elements * it.type.shape[i];
    if (it.type.shape[i] == Dim(0)) fail(name, loc, "of no elements along axis ", i, ": ", to_string(it.type));
  }
  it.value = reshape_to(it.value, Shape::of(it.batch, it.elements), loc);
  return it;
}

// Of an axis: i64 [batch or 1, windows, places], and which of them count (undefined: all).
struct PlacesOfAxis {
  Tensor places, inside;
};

// The first of the greatest elements of each window, or the first NaN.
ValuesAndIndices pick_greatest(const Planes& from, const std::vector<PlacesOfAxis>& axes, Loc loc) {
  const int count = static_cast<int>(axes.size());
  Tensor number, inside;
  std::vector<Dim> windows;
  Dim all_windows = 1, all_places = 1;
  for (int i = 0; i < count; ++i) {
    const PlacesOfAxis& axis = axes[static_cast<std::size_t>(i)];
    // [batch, windows..., places...] of all axes.
    const auto along = [&](const Tensor& value) {
      const Shape& own = type_of(value).shape;
      Shape shape;
      shape.resize(1 + 2 * count);
      shape[0] = own[0], shape[1 + i] = own[1], shape[1 + count + i] = own[2];
      return reshape_to(value, shape, loc);
    };
    const Tensor own = along(axis.places);
    number = i == 0 ? own : number * from.type.shape[from.first + i] + own;
    if (axis.inside.defined()) inside = inside.defined() ? inside & along(axis.inside) : along(axis.inside);
    const Shape& shape = type_of(axis.places).shape;
    windows.push_back(shape[1]);
    all_windows = all_windows * shape[1], all_places = all_places * shape[2];
  }
  Shape whole = type_of(number).shape;
  whole[0] = from.batch;
  const Shape flat = Shape::of(from.batch, all_windows, all_places);
  const Tensor numbers = reshape_to(expand(number, whole), flat, loc);
  const Tensor plane = positions(0, Shape::of(from.batch, 1, 1), from.type.device, loc);
  Tensor found = record(Op::gather, {flatten(stop_gradient(from.value)), plane * from.elements + numbers}, {}, {}, loc);
  if (inside.defined()) {
    Shape once = whole;
    once[0] = 1;
    found = where(reshape_to(expand(inside, once), Shape::of(1, all_windows, all_places), loc), found, -INFINITY);
  }
  const Tensor index = squeeze(gather(numbers, 2, argmax(found, 2, true)), 2);
  const Shape shape = from.with(windows);
  return {reshape_to(gather(from.value, 1, index), shape, loc), reshape_to(index, shape, loc)};
}

void differentiate_unpool(const CallValues& p, std::span<Tensor> gradients) {
  gradients[0] = record(Op::gather, {p.gradients[0], p.operands[1]}, {}, {}, {});
}

}  // namespace

ValuesAndIndices adaptive_max_pool_with_indices(const char* name, const At& given, int count,
                                                const std::int64_t* sizes) {
  LooseComposite call(name, given.loc);
  const Planes planes = planes_of(name, given, count, call.loc());
  check_adaptive_pool(name, count, sizes, call.loc());
  std::vector<PlacesOfAxis> axes;
  for (int i = 0; i < count; ++i) {
    const Dim size = static_cast<std::int64_t>(planes.type.shape[planes.first + i]), wanted = sizes[i];
    // The longest of the windows; one of the others ends before.
    const Dim most = (size + wanted - Dim(1)) / wanted + Dim((size % wanted).same(Dim(0)) ? 0 : 1);
    const Shape shape = Shape::of(1, wanted, most);
    const Tensor window = positions(1, shape, planes.type.device, call.loc());
    const Tensor place = floor_divide(window * size, wanted) + positions(2, shape, planes.type.device, call.loc());
    const Tensor inside = place < floor_divide((window + 1) * size + (wanted - Dim(1)), wanted);
    axes.push_back({minimum(place, size - Dim(1)), inside});
  }
  return pick_greatest(planes, axes, call.loc());
}

Tensor max_unpool(const char* name, const At& given, const At& numbers, const Pool& how, const Sizes& output_size) {
  LooseComposite call(name, given.loc);
  const Planes planes = planes_of(name, given, how.count, call.loc());
  check_pool(name, how, call.loc());
  const Tensor indices = resolve(numbers, name);
  if (!is_integer(type_of(indices).dtype) || !(type_of(indices).shape == planes.type.shape))
    fail(name, call.loc(), "needs an index for each element: ", to_string(planes.type), " and ",
         to_string(type_of(indices)));
  const Shape& wanted = output_size.shape();
  if (wanted.rank() != 0 && wanted.rank() != how.count)
    fail(name, call.loc(), "output_size needs ", counted(how.count, "size", "sizes"), ", it has ", wanted.rank());
  std::vector<Dim> sizes;
  Dim elements = 1;
  for (int i = 0; i < how.count; ++i) {
    const std::int64_t stride = how.stride[i] == 0 ? how.kernel[i] : how.stride[i];
    const Dim natural =
        (planes.type.shape[planes.first + i] - Dim(1)) * stride + Dim(how.kernel[i] - 2 * how.padding[i]);
    sizes.push_back(wanted.rank() == 0 ? natural : wanted[i]);
    check_extent(name, "a size", sizes.back(), call.loc());
    if (sizes.back() < Dim(1)) fail(name, call.loc(), "the result has no elements along axis ", planes.first + i);
    elements = elements * sizes.back();
  }
  const Tensor flat = reshape_to(cast(indices, DType::i64), type_of(planes.value).shape, call.loc());
  check_range(flat, elements, name, call.loc(), planes.value);
  const Tensor plane = positions(0, type_of(flat).shape, planes.type.device, call.loc());
  Type type = planes.type;
  type.shape = Shape::of(planes.batch * elements);
  const auto body = [](const Tensor& value, const Tensor& index, const Tensor& empty) {
    return update_rows(empty, 0, index, value, false, {});
  };
  const Tensor result =
      composite_with(differentiate_unpool, called("max_unpool"), call.loc(), body, flatten(planes.value),
                     flatten(plane * elements + flat), constant_like(0, type, call.loc()));
  return reshape_to(result, planes.with(sizes), call.loc());
}

void check_fractional_pool(const char* name, const FractionalPool& how, Loc loc) {
  check_axes(name, "kernel", how.kernel, how.count, 1, loc);
  const bool by_size = how.output_size[0] != 0;
  if (by_size != how.output_ratio.empty()) fail(name, loc, "needs one of output_size and output_ratio");
  if (by_size) return check_axes(name, "output_size", how.output_size, how.count, 1, loc);
  const std::size_t ratios = how.output_ratio.size();
  if (ratios != 1 && ratios != static_cast<std::size_t>(how.count))
    fail(name, loc, "output_ratio needs a number for each of ", how.count, " axes, or one for all");
  for (const double ratio : how.output_ratio)
    if (!(ratio > 0 && ratio < 1)) fail(name, loc, "output_ratio is between 0 and 1, it is ", ratio);
}

// Window i of an axis begins at floor((i + u) alpha) - floor(u alpha) with alpha = (size - kernel) / (windows - 1), and
// the last one ends with the axis.
ValuesAndIndices fractional_max_pool(const char* name, const At& given, const FractionalPool& how,
                                     Generator& generator) {
  LooseComposite call(name, given.loc);
  const Planes planes = planes_of(name, given, how.count, call.loc());
  const DType wide = computed_in(planes.type.dtype);
  check_fractional_pool(name, how, call.loc());
  const Shape drawn =
      Shape::of(planes.first == 2 ? planes.type.shape[0] : Dim(1), planes.type.shape[planes.first - 1], how.count);
  Tensor samples;
  if (how.random_samples.defined()) {
    samples = resolve(At(how.random_samples, call.loc()), name);
    if (!(type_of(samples).shape == drawn) || !is_floating(type_of(samples).dtype))
      fail(name, call.loc(), "needs random samples ", drawn, ", they are ", to_string(type_of(samples)));
    if (!samples.element_count().same(Dim(0)))
      require(all((samples >= 0) & (samples < 1)), name, call.loc(),
              "random samples must be in [0, 1): " + to_string(type_of(samples)));
    samples = cast(samples, wide);
  } else {
    samples = uniform(drawn, 0, 1, generator, {wide, planes.type.device}, call.loc());
  }
  samples = reshape_to(samples, Shape::of(planes.batch, how.count), call.loc());
  std::vector<PlacesOfAxis> axes;
  for (int i = 0; i < how.count; ++i) {
    const Dim size = planes.type.shape[planes.first + i], kernel = how.kernel[i];
    Dim windows = how.output_size[i];
    if (const std::size_t ratios = how.output_ratio.size(); ratios > 0) {
      const double ratio = how.output_ratio[ratios == 1 ? 0 : static_cast<std::size_t>(i)];
      windows = static_cast<std::int64_t>(static_cast<double>(static_cast<std::int64_t>(size)) * ratio);
    }
    if (windows < Dim(1) || size < windows + kernel - Dim(1))
      fail(name, call.loc(), dims::to_string(windows), " windows of ", how.kernel[i], " do not fit into ",
           dims::to_string(size), " elements");
    // PyTorch has the samples of two axes the other way round.
    const Tensor u = slice(samples, 1, how.count == 2 ? 1 - i : i, (how.count == 2 ? 1 - i : i) + 1);
    const Tensor window = positions(1, Shape::of(1, windows), planes.type.device, call.loc());
    Tensor begin = where(window < windows - Dim(1), 0, size - kernel);
    if (windows > Dim(1)) {
      const Tensor step =
          cast(dim_value(size - kernel, call.loc()), wide) / cast(dim_value(windows - Dim(1), call.loc()), wide);
      const Tensor random =
          cast(trunc((cast(window, wide) + u) * step), DType::i64) - cast(trunc(u * step), DType::i64);
      begin = where(window < windows - Dim(1), random, size - kernel);
    }
    const Tensor place = positions(2, Shape::of(1, 1, kernel), planes.type.device, call.loc());
    axes.push_back({unsqueeze(begin, 2) + place, {}});
  }
  return pick_greatest(planes, axes, call.loc());
}

}  // namespace weft::detail
