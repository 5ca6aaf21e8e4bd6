// Samples of images at places that are computed: by a grid, and in the bins of boxes.
#include <vector>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "record/record.hpp"
#include "weft/nn/vision.hpp"

namespace weft::nn {
namespace {

struct Image {
  Tensor value;  // [N,C,sizes...]
  Type type;
  DType wide;
  Loc loc;
  int axes() const { return type.shape.rank() - 2; }
  Dim size(int axis) const { return type.shape[2 + axis]; }
};

Image image_of(const char* name, const At& given, int count, Loc loc) {
  const Tensor value = resolve(given, name);
  const Type type = type_of(value);
  if (type.shape.rank() != count + 2 || !is_floating(type.dtype))
    fail(name, loc, "takes a floating image ", count == 2 ? "[N,C,H,W]" : "[N,C,D,H,W]", ", it is ", to_string(type));
  for (int i = 2; i < type.shape.rank(); ++i)
    if (type.shape[i] < Dim(1)) fail(name, loc, "the image has no elements: ", to_string(type));
  return {value, type, computed_in(type.dtype), loc};
}

using Places = std::vector<Tensor>;  // along each axis, the outermost first: [K,1,sizes'...], which broadcast

// The elements at whole places, zeros outside: batch [K,1,...,1] i64, to [K,C,sizes'...].
Tensor elements(const Image& image, const Tensor& batch, const Places& places) {
  const auto bounded = [](const Tensor& place, Dim size) {
    return cast(minimum(maximum(place, 0), size - Dim(1)), DType::i64);
  };
  const Dim channels = image.type.shape[1];
  Shape across;
  across.resize(image.axes() + 2);
  across[1] = channels;
  const Tensor channel = positions(1, across, image.type.device, image.loc);
  // What all channels share is computed once: the place within a channel.
  Tensor within_channel, inside;
  Dim plane = 1;
  for (int i = 0; i < image.axes(); ++i) {
    const Tensor &place = places[static_cast<std::size_t>(i)], whole = bounded(place, image.size(i));
    within_channel = i == 0 ? whole : within_channel * image.size(i) + whole;
    plane = plane * image.size(i);
    const Tensor within = (place >= 0) & (place <= image.size(i) - Dim(1));
    inside = i == 0 ? within : inside & within;
  }
  const Tensor index = (batch * channels + channel) * plane + within_channel;
  const Tensor found = record(Op::gather, {flatten(image.value), index}, {}, {}, image.loc);
  return where(inside, cast(found, image.wide), 0);
}

// Between the neighbours along this axis and those after it; the places of the ones before are whole.
Tensor between_elements(const Image& image, const Tensor& batch, const Places& places, int axis = 0) {
  if (axis == image.axes()) return elements(image, batch, places);
  const auto i = static_cast<std::size_t>(axis);
  const Tensor lower = floor(places[i]), beyond = places[i] - lower;
  Places before = places, behind = places;
  before[i] = lower, behind[i] = lower + 1;
  return between_elements(image, batch, before, axis + 1) * (1 - beyond) +
         between_elements(image, batch, behind, axis + 1) * beyond;
}

// Into [0, size - 1]; at the bounds no gradient passes.
Tensor clipped(const Tensor& place, Dim size) {
  return where(place > 0, where(place < size - Dim(1), place, size - Dim(1)), 0);
}

Tensor reflected(const Tensor& place, Dim size, bool align_corners) {
  if (align_corners && size == Dim(1)) return zeros_like(place);
  const double low = align_corners ? 0 : -0.5;
  const Dim span = align_corners ? size - Dim(1) : size;
  const Tensor from_low = place - low, distance = where(from_low < 0, -from_low, from_low);
  const Tensor rest = fmod(distance, span), turns = floor(distance / span);
  return where(remainder(turns, 2) == 0, rest + low, span - rest + low);
}

// From [-1, 1] to elements.
Tensor place_of(const Tensor& coordinate, Dim size, const GridSampleOptions& options) {
  const Tensor place =
      options.align_corners ? (coordinate + 1) / 2 * (size - Dim(1)) : ((coordinate + 1) * size - 1) / 2;
  switch (options.padding_mode) {
    case SamplePadding::border: return clipped(place, size);
    case SamplePadding::reflection: return clipped(reflected(place, size, options.align_corners), size);
    default: return place;
  }
}

Tensor sampled(const Image& image, const Tensor& given, const GridSampleOptions& options) {
  const Tensor grid = unsqueeze(cast(given, image.wide), 1);
  const int count = image.axes();
  Places places;
  for (int i = 0; i < count; ++i)  // coordinates are from the last axis to the first
    places.push_back(place_of(select(grid, -1, count - 1 - i), image.size(i), options));
  Shape rows;
  rows.resize(count + 2);
  rows[0] = image.type.shape[0];
  const Tensor batch = positions(0, rows, image.type.device, image.loc);
  const bool is_nearest = options.mode == SampleMode::nearest;
  for (Tensor& place : places)
    if (is_nearest) place = round(place);
  const Tensor result = is_nearest ? elements(image, batch, places) : between_elements(image, batch, places);
  return cast(result, image.type.dtype);
}

}  // namespace

Tensor grid_sample(At x, At given, GridSampleOptions options) {
  constexpr const char* name = "grid_sample";
  Operation call(name, x.loc);
  check_choice(name, "SampleMode", options.mode, SampleMode::nearest, call.loc());
  check_choice(name, "SamplePadding", options.padding_mode, SamplePadding::reflection, call.loc());
  const Tensor grid = resolve(given, name);
  const Type type = type_of(grid);
  const int count = type.shape.rank() == 5 ? 3 : 2;
  const Image image = image_of(name, x, count, call.loc());
  if (type.shape.rank() != count + 2 || !(type.shape[count + 1] == Dim(count)) ||
      !(type.shape[0] == image.type.shape[0]) || type.dtype != image.type.dtype)
    fail(name, call.loc(), "takes a grid ", count == 2 ? "[N,H',W',2]" : "[N,D',H',W',3]",
         " of the image's dtype: ", to_string(image.type), " at ", to_string(type));
  const SampleCall numbers{called(name), static_cast<std::int64_t>(options.mode),
                           static_cast<std::int64_t>(options.padding_mode), options.align_corners};
  const auto body = [&](const Tensor& x, const Tensor& grid) {
    Image of = image;
    of.value = x;
    return sampled(of, grid, options);
  };
  return composite(numbers, call.loc(), body, image.value, grid);
}

Tensor affine_grid(At given, Sizes size, bool align_corners) {
  constexpr const char* name = "affine_grid";
  LooseComposite call(name, given.loc);
  const Tensor theta = resolve(given, name);
  const Type type = type_of(theta);
  const Shape& wanted = size.shape();
  const int count = wanted.rank() - 2;
  if ((count != 2 && count != 3) || type.shape.rank() != 3 || !is_floating(type.dtype) ||
      !(type.shape[1] == Dim(count)) || !(type.shape[2] == Dim(count + 1)) || !(type.shape[0] == wanted[0]))
    fail(name, call.loc(),
         "takes a floating theta [N,2,3] with a size [N,C,H,W], or [N,3,4] with [N,C,D,H,W]: ", to_string(type),
         " with ", wanted);
  const DType wide = computed_in(type.dtype);
  // Coordinates are from the last axis to the first: x, y, z. Each one adds its column of theta, [N,1,...,1,count].
  const auto column = [&](int i) {
    Shape shape = Shape::of(type.shape[0]);
    for (int axis = 0; axis < count; ++axis) shape.push_back(1);
    shape.push_back(count);
    return reshape_to(select(cast(theta, wide), 2, i), shape, call.loc());
  };
  Tensor grid = column(count);
  for (int i = 0; i < count; ++i) {
    const Dim along = wanted[wanted.rank() - 1 - i];
    Shape shape;
    for (int axis = 0; axis < count + 2; ++axis) shape.push_back(axis == count - i ? along : Dim(1));
    const Tensor place = cast(positions(count - i, shape, type.device, call.loc()), wide);
    if (along == Dim(1)) continue;  // its coordinate is 0
    const Tensor coordinate = align_corners ? place * 2 / (along - Dim(1)) - 1 : (place * 2 + 1) / along - 1;
    grid = grid + coordinate * column(i);
  }
  Shape result = Shape::of(wanted[0]);
  for (int axis = 2; axis < wanted.rank(); ++axis) result.push_back(wanted[axis]);
  result.push_back(count);
  return cast(expand(grid, result), type.dtype);
}

Tensor roi_align(At x, At given, PerAxis<2> output_size, RoiAlignOptions options) {
  constexpr const char* name = "roi_align";
  LooseComposite call(name, x.loc);
  const Image image = image_of(name, x, 2, call.loc());
  Tensor boxes = resolve(given, name);
  const Type type = type_of(boxes);
  if (type.shape.rank() != 2 || !(type.shape[1] == Dim(5)) || !is_floating(type.dtype))
    fail(name, call.loc(), "takes floating boxes [K,5] of (index, x1, y1, x2, y2), they are ", to_string(type));
  if (output_size[0] < 1 || output_size[1] < 1 || !(options.spatial_scale > 0))
    fail(name, call.loc(), "output_size and spatial_scale must be positive: ", output_size[0], " x ", output_size[1],
         " and ", options.spatial_scale);
  const std::int64_t samples = options.sampling_ratio;
  if (samples < 1)
    fail(name, call.loc(), "sampling_ratio must be positive, it is ", samples,
         ": a count that follows from the boxes is no size of a graph");
  boxes = stop_gradient(boxes);
  const Tensor given_numbers = select(boxes, 1, 0);
  const Tensor numbers = cast(where(isnan(given_numbers), -1, given_numbers), DType::i64);
  check_places(numbers, image.value, 0, name, call.loc());
  const Dim count = type.shape[0];
  const Tensor batch = reshape_to(numbers, Shape::of(count, 1, 1, 1), call.loc());

  Places places;
  Tensor inside;
  for (int axis = 0; axis < 2; ++axis) {  // y, x
    const auto edge = [&](int i) {
      const Tensor edge = cast(select(boxes, 1, i), image.wide) * options.spatial_scale;
      return reshape_to(options.aligned ? edge - 0.5 : edge, Shape::of(count, 1, 1, 1), call.loc());
    };
    const Tensor start = edge(2 - axis), extent = edge(4 - axis) - start;
    const Tensor length = options.aligned ? extent : maximum(extent, 1);
    const Dim all = Dim(output_size[axis]) * Dim(samples), size = image.type.shape[2 + axis];
    check_extent(name, "the count of samples", all, call.loc());
    const Shape shape = axis == 0 ? Shape::of(1, 1, all, 1) : Shape::of(1, 1, 1, all);
    const Tensor sample = cast(positions(2 + axis, shape, type.device, call.loc()), image.wide) + 0.5;
    const Tensor place = start + sample * length / all;
    const Tensor near = (place >= -1) & (place <= size);
    inside = axis == 0 ? near : inside & near;
    places.push_back(clipped(place, size));
  }
  const Tensor values = where(inside, between_elements(image, batch, places), 0);
  const Shape parts = Shape::of(count, image.type.shape[1], output_size[0], samples, output_size[1], samples);
  return cast(mean(reshape_to(values, parts, call.loc()), {3, 5}), image.type.dtype);
}

}  // namespace weft::nn
