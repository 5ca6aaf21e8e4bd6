// Images of other sizes, and channels that become places.
#include "weft/nn/vision.hpp"

#include <cmath>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/composite.hpp"

namespace weft::nn {
namespace {

constexpr const char* resize = "interpolate";

struct AxisOfResize {
  Dim from, to;
  double scale = 0;  // 0: the quotient of the sizes
};

// A size times a number, rounded down. Of a symbolic size a product with a fraction of a power of two stays symbolic.
Dim scaled(Dim size, double scale) {
  if (!size.is_constant()) {
    double numerator = scale;
    std::int64_t denominator = 1;
    while (denominator < 4096 && numerator != std::floor(numerator)) numerator *= 2, denominator *= 2;
    if (numerator == std::floor(numerator) && numerator < 4096.0 * 4096.0)
      return size * Dim(static_cast<std::int64_t>(numerator)) / Dim(denominator);
  }
  return static_cast<std::int64_t>(std::floor(static_cast<double>(static_cast<std::int64_t>(size)) * scale));
}

Tensor number(Dim size, DType dtype, Device device) { return full({}, size, {dtype, device}); }

// What a place of the result is multiplied with.
Tensor step_of(const AxisOfResize& axis, bool align_corners, DType dtype, Device device) {
  if (align_corners)
    return number(axis.from - Dim(1), dtype, device) / maximum(number(axis.to - Dim(1), dtype, device), 1);
  if (axis.scale != 0) return full({}, 1 / axis.scale, {dtype, device});
  return number(axis.from, dtype, device) / number(axis.to, dtype, device);
}

// How many times each element occurs in the result; 0: no whole number. `nearest` keeps or doubles a size of which the
// product with the scale is rounded to that.
std::int64_t repetitions(const AxisOfResize& axis, bool exact) {
  if (axis.scale == std::floor(axis.scale) && axis.scale != 0) return static_cast<std::int64_t>(axis.scale);
  if (axis.scale > 1 && axis.scale < 3 && !exact)
    return axis.to == axis.from ? 1 : axis.to == axis.from * Dim(2) ? 2 : 0;
  if (axis.scale != 0) return 0;
  if (axis.from.same(axis.to)) return 1;
  if (!axis.from.is_constant() || !axis.to.is_constant()) return 0;
  return axis.to.constant() % axis.from.constant() == 0 ? axis.to.constant() / axis.from.constant() : 0;
}

Tensor nearest(const Tensor& x, int axis, const AxisOfResize& it, bool exact, Loc loc) {
  const Type type = type_of(x);
  if (const std::int64_t times = repetitions(it, exact); times != 0) {
    if (times == 1) return x;
    Shape repeated, result = type.shape;
    for (int i = 0; i < result.rank(); ++i) {
      repeated.push_back(result[i]);
      if (i == axis) repeated.push_back(times);
    }
    result[axis] = it.to;
    return reshape_to(expand(unsqueeze(x, axis + 1), repeated), result, loc);
  }
  const Tensor place = cast(positions(0, Shape::of(it.to), type.device, loc), DType::f32);
  const Tensor source = (exact ? place + 0.5 : place) * step_of(it, false, DType::f32, type.device);
  const Tensor index = minimum(cast(floor(source), DType::i64), it.from - Dim(1));
  return movedim(record(Op::gather, {movedim(x, axis, 0), index}, {}, {}, loc), 0, axis);
}

// What each element of the result is the sum of: elements of these numbers times these weights, both [taps, to].
struct Taps {
  Tensor index, weight;
};
Taps linear_taps(const AxisOfResize& it, bool align_corners, DType dtype, Device device, Loc loc) {
  const Tensor place = cast(positions(0, Shape::of(it.to), device, loc), dtype),
               step = step_of(it, align_corners, dtype, device);
  const Dim last = it.from - Dim(1);
  Tensor source = align_corners ? place * step : maximum((place + 0.5) * step - 0.5, 0);
  source = minimum(source, cast(number(last, DType::i64, device), dtype));
  const Tensor lower = floor(source), behind = source - lower, first = cast(lower, DType::i64);
  return {stack({first, minimum(first + 1, last)}), stack({1 - behind, behind})};
}
Taps cubic_taps(const AxisOfResize& it, bool align_corners, DType dtype, Device device, Loc loc) {
  constexpr double a = -0.75;
  const Tensor place = cast(positions(0, Shape::of(it.to), device, loc), dtype),
               step = step_of(it, align_corners, dtype, device);
  const Tensor source = align_corners ? place * step : (place + 0.5) * step - 0.5;
  const Tensor lower = floor(source), behind = source - lower, first = cast(lower, DType::i64);
  std::vector<Tensor> indices, weights;
  for (int tap = -1; tap <= 2; ++tap) {
    const Tensor distance = abs(behind - tap);
    weights.push_back(tap == 0 || tap == 1 ? ((a + 2) * distance - (a + 3)) * distance * distance + 1
                                           : ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a);
    indices.push_back(minimum(maximum(first + tap, 0), it.from - Dim(1)));
  }
  return {stack(indices), stack(weights)};
}

// Of symbolic sizes: whether they are equal, as a value, so that one graph serves all sizes.
Tensor keeps_size(Dim from, Dim to, Device device) {
  return number(from, DType::i64, device) == number(to, DType::i64, device);
}

// [from, to]: the share of each element in each element of the result.
Tensor shares_of(const Tensor& index, const Tensor& weight, Dim from) {
  const Shape& taps = type_of(index).shape;
  const Tensor element = positions(0, Shape::of(from, taps[1]), type_of(index).device, {});
  Tensor shares;
  for (int i = 0; i < static_cast<int>(taps[0].constant()); ++i) {
    const Tensor share = where(element == index[i], weight[i], 0);
    shares = i == 0 ? share : shares + share;
  }
  return shares;
}
// The gradient of x [before, from, behind], or [before, from]: a product with the shares, which adds nothing up in
// memory.
void differentiate_mix(const CallValues& call, std::span<Tensor> gradients) {
  const Shape& shape = type_of(call.operands[0]).shape;
  const Tensor shares = shares_of(call.operands[1], call.operands[2], shape[1]), &given = call.gradients[0];
  gradients[0] = shape.rank() == 2 ? matmul(given, transpose(shares)) : matmul(shares, given);
}
// `may_keep`: whether sizes may turn out equal (keeps_size), and then an element of weight 0 is not even an infinite
// one.
Tensor mixed(const Tensor& x, int axis, const Taps& taps, bool may_keep, Loc loc) {
  Shape result = type_of(x).shape;
  const Dim from = result[axis];
  result[axis] = type_of(taps.index).shape[1];
  Dim before = 1, behind = 1;
  for (int i = 0; i < axis; ++i) before = before * result[i];
  for (int i = axis + 1; i < result.rank(); ++i) behind = behind * result[i];
  const bool last = axis == result.rank() - 1;
  const auto body = [&](const Tensor& x, const Tensor& index, const Tensor& weight) {
    const Tensor rows = movedim(x, 1, 0);
    const Tensor keeps =
        may_keep ? keeps_size(type_of(x).shape[1], type_of(index).shape[1], type_of(x).device) : Tensor();
    Tensor sum;
    for (int i = 0; i < static_cast<int>(type_of(index).shape[0].constant()); ++i) {
      const Tensor taken = movedim(record(Op::gather, {rows, index[i]}, {}, {}, loc), 0, 1);
      const Tensor share = last ? weight[i] : unsqueeze(weight[i], 1);
      const Tensor part = may_keep ? where(keeps & (share == 0), 0, taken * share) : taken * share;
      sum = i == 0 ? part : sum + part;
    }
    return sum;
  };
  const Tensor flat = reshape_to(x, last ? Shape::of(before, from) : Shape::of(before, from, behind), loc);
  const Tensor mixed =
      composite_with(differentiate_mix, called("interpolate_axis"), loc, body, flat, taps.index, taps.weight);
  return reshape_to(mixed, result, loc);
}

// x times the weights of a filter that is as wide as what an element of the result covers.
Tensor averaged(const Tensor& x, int axis, const AxisOfResize& it, bool cubic, bool align_corners, Loc loc) {
  const Type type = type_of(x);
  const Shape pairs = Shape::of(it.from, it.to);
  const Tensor step = step_of(it, align_corners, type.dtype, type.device), width = maximum(step, 1);
  const Tensor element = cast(positions(0, pairs, type.device, loc), type.dtype),
               place = cast(positions(1, pairs, type.device, loc), type.dtype);
  const Tensor distance = abs((element - (place + 0.5) * step + 0.5) / width);
  constexpr double a = -0.5;
  const Tensor near = ((a + 2) * distance - (a + 3)) * distance * distance + 1,
               far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
  const Tensor shares = cubic ? where(distance < 1, near, where(distance < 2, far, 0)) : maximum(1 - distance, 0);
  return movedim(matmul(movedim(x, axis, -1), shares / sum(shares, 0)), -1, axis);
}

int axes_wanted(Interpolation mode) {
  switch (mode) {
    case Interpolation::linear: return 1;
    case Interpolation::bilinear:
    case Interpolation::bicubic: return 2;
    case Interpolation::trilinear: return 3;
    default: return 0;
  }
}

}  // namespace

Tensor interpolate(At given, const InterpolateOptions& options) {
  LooseComposite call(resize, given.loc);
  check_choice(resize, "Interpolation", options.mode, Interpolation::area, call.loc());
  Tensor x = resolve(given, resize);
  const Type type = type_of(x);
  const int count = type.shape.rank() - 2, wanted = axes_wanted(options.mode);
  if (count < 1 || count > 3 || (wanted != 0 && count != wanted))
    fail(resize, call.loc(), "takes [N,C,sizes...] of ",
         wanted != 0 ? counted(wanted, "size", "sizes") : std::string("1 to 3 sizes"),
         " in this mode: ", to_string(type));
  const bool is_nearest = options.mode == Interpolation::nearest || options.mode == Interpolation::nearest_exact;
  if (!is_nearest && !is_floating(type.dtype))
    fail(resize, call.loc(), "takes a floating tensor in this mode: ", to_string(type));
  if (options.align_corners && wanted == 0)
    fail(resize, call.loc(), "align_corners is for linear, bilinear, trilinear and bicubic");
  if (options.antialias && options.mode != Interpolation::bilinear && options.mode != Interpolation::bicubic)
    fail(resize, call.loc(), "antialias is for bilinear and bicubic");
  const int sizes = options.size.shape().rank(), scales = static_cast<int>(options.scale_factor.size());
  if ((sizes != 0) == (scales != 0)) fail(resize, call.loc(), "needs one of size and scale_factor");
  if (sizes + scales != 1 && sizes + scales != count)
    fail(resize, call.loc(), "needs a number for each of ", counted(count, "size", "sizes"),
         ", or one for all; there are ", sizes + scales);

  std::vector<AxisOfResize> axes;
  for (int i = 0; i < count; ++i) {
    AxisOfResize& it = axes.emplace_back();
    it.from = type.shape[2 + i];
    if (sizes != 0) {
      it.to = options.size.shape()[sizes == 1 ? 0 : i];
    } else {
      it.scale = options.scale_factor[scales == 1 ? 0 : static_cast<std::size_t>(i)];
      if (!(it.scale > 0 && it.scale < 1e9))
        fail(resize, call.loc(), "scale_factor must be positive and below 1e9, it is ", it.scale);
      it.to = scaled(it.from, it.scale);
    }
    check_extent(resize, "a size", it.to, call.loc());
    if (it.from < Dim(1) || it.to < Dim(1))
      fail(resize, call.loc(), "sizes must be positive: ", dims::to_string(it.from), " to ", dims::to_string(it.to));
  }
  if (options.mode == Interpolation::area) {
    std::int64_t targets[3] = {};
    for (int i = 0; i < count; ++i) targets[i] = static_cast<std::int64_t>(axes[static_cast<std::size_t>(i)].to);
    return weft::detail::adaptive_pool(resize, x, count, targets, false);
  }
  const DType wide = is_nearest ? type.dtype : computed_in(type.dtype);
  x = cast(x, wide);
  for (int i = 0; i < count; ++i) {
    const AxisOfResize& it = axes[static_cast<std::size_t>(i)];
    if (is_nearest) {
      x = nearest(x, 2 + i, it, options.mode == Interpolation::nearest_exact, call.loc());
      continue;
    }
    // An axis that keeps its size keeps its values: 0 times an infinite neighbour would be NaN. Whether symbolic sizes
    // are equal is a value: decided, a package for images of many sizes would refuse those of the result's size.
    const bool in_place = it.scale == 0 || it.scale == 1 || options.align_corners;
    if (in_place && it.from.same(it.to)) continue;
    const bool may_keep = in_place && !(it.from.is_constant() && it.to.is_constant());
    if (options.antialias) {
      const Tensor given = x;
      x = averaged(x, 2 + i, it, options.mode == Interpolation::bicubic, options.align_corners, call.loc());
      if (may_keep) {
        const Tensor place = minimum(positions(0, Shape::of(it.to), type.device, call.loc()), it.from - Dim(1));
        const Tensor same =
            movedim(record(Op::gather, {movedim(given, 2 + i, 0), place}, {}, {}, call.loc()), 0, 2 + i);
        x = where(keeps_size(it.from, it.to, type.device), same, x);
      }
      continue;
    }
    const auto taps_of = options.mode == Interpolation::bicubic ? cubic_taps : linear_taps;
    x = mixed(x, 2 + i, taps_of(it, options.align_corners, wide, type.device, call.loc()), may_keep, call.loc());
  }
  return cast(x, type.dtype);
}

Tensor Upsample::operator()(At x) const {
  return interpolate(x, {.size = Sizes(options.size),
                         .scale_factor = options.scale_factor,
                         .mode = options.mode,
                         .align_corners = options.align_corners});
}

// ---- channels to places and back ------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t most_factor = std::int64_t{1} << 20;  // its square is a size

// The sizes before the last three, and a check that a factor is positive.
Shape leading(const char* name, const Type& type, std::int64_t factor, Loc loc) {
  if (type.shape.rank() < 3 || type.shape.rank() > max_rank - 2)
    fail(name, loc, "takes [..., C, H, W] of 3 to ", max_rank - 2, " axes: ", to_string(type));
  if (factor < 1 || factor > most_factor)
    fail(name, loc, "the factor must be positive, and at most ", most_factor, ": it is ", factor);
  return Shape(type.shape.begin(), type.shape.rank() - 3);
}
Tensor rearranged(const Tensor& x, const Shape& lead, std::initializer_list<Dim> split,
                  std::initializer_list<int> order, std::initializer_list<Dim> merged, Loc loc) {
  Shape parts = lead, result = lead;
  std::vector<int> axes;
  for (int i = 0; i < lead.rank(); ++i) axes.push_back(i);
  for (const Dim each : split) parts.push_back(each);
  for (const int each : order) axes.push_back(lead.rank() + each);
  for (const Dim each : merged) result.push_back(each);
  return reshape_to(permute(reshape_to(x, parts, loc), axes), result, loc);
}

}  // namespace

Tensor pixel_shuffle(At given, std::int64_t r) {
  constexpr const char* name = "pixel_shuffle";
  LooseComposite call(name, given.loc);
  const Tensor x = resolve(given, name);
  const Type type = type_of(x);
  const Shape lead = leading(name, type, r, call.loc());
  const Dim c = type.shape[lead.rank()], h = type.shape[lead.rank() + 1], w = type.shape[lead.rank() + 2];
  if (!(c % Dim(r * r) == Dim(0)))
    fail(name, call.loc(), r, " x ", r, " places do not divide ", dims::to_string(c), " channels");
  const Dim kept = c / Dim(r * r);
  return rearranged(x, lead, {kept, r, r, h, w}, {0, 3, 1, 4, 2}, {kept, h * Dim(r), w * Dim(r)}, call.loc());
}

Tensor pixel_unshuffle(At given, std::int64_t r) {
  constexpr const char* name = "pixel_unshuffle";
  LooseComposite call(name, given.loc);
  const Tensor x = resolve(given, name);
  const Type type = type_of(x);
  const Shape lead = leading(name, type, r, call.loc());
  const Dim c = type.shape[lead.rank()], h = type.shape[lead.rank() + 1], w = type.shape[lead.rank() + 2];
  if (!(h % Dim(r) == Dim(0)) || !(w % Dim(r) == Dim(0)))
    fail(name, call.loc(), "the factor ", r, " does not divide ", dims::to_string(h), " x ", dims::to_string(w));
  const Dim high = h / Dim(r), wide = w / Dim(r);
  return rearranged(x, lead, {c, high, r, wide, r}, {0, 2, 4, 1, 3}, {c * Dim(r * r), high, wide}, call.loc());
}

Tensor channel_shuffle(At given, std::int64_t groups) {
  constexpr const char* name = "channel_shuffle";
  LooseComposite call(name, given.loc);
  const Tensor x = resolve(given, name);
  const Type type = type_of(x);
  if (type.shape.rank() < 3 || type.shape.rank() == max_rank)
    fail(name, call.loc(), "takes [N, C, ...] of 3 to ", max_rank - 1, " axes: ", to_string(type));
  if (groups < 1 || !(type.shape[1] % Dim(groups) == Dim(0)))
    fail(name, call.loc(), groups, " groups do not divide ", dims::to_string(type.shape[1]), " channels");
  Shape parts = Shape::of(type.shape[0], groups, type.shape[1] / Dim(groups));
  for (int i = 2; i < type.shape.rank(); ++i) parts.push_back(type.shape[i]);
  return reshape_to(transpose(reshape_to(x, parts, call.loc()), 1, 2), type.shape, call.loc());
}

}  // namespace weft::nn
