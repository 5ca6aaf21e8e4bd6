// Operators of images: other sizes, samples at any place, boxes, windows as columns.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "onnx/call.hpp"
#include "weft/indexing.hpp"
#include "weft/nn/vision.hpp"

namespace weft::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

// ---- other sizes ----------------------------------------------------------------------------------------------------

struct Resizing {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic = -0.75, outside = 0;
  bool antialias = false, excludes_outside = false;
};
// Where the elements of one axis of the result come from: `taps` elements each, with their weights.
struct AxisTaps {
  std::int64_t taps = 0, size = 0;
  Integers places = {};              // [taps, size]
  std::vector<double> weights = {};  // [taps, size]
  std::vector<bool> outside = {};    // [size]: of no place of the axis
};
double cubic_weight(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
AxisTaps taps_of(const Resizing& how, std::int64_t from, std::int64_t to, double scale, double roi_begin,
                 double roi_end) {
  AxisTaps made;
  const double exact = scale * static_cast<double>(from), last = static_cast<double>(from - 1);
  const bool cubic = how.mode == "cubic", nearest = how.mode == "nearest";
  const double reach = how.antialias ? std::min(scale, 1.0) : 1.0;
  const auto first = nearest ? 0 : static_cast<std::int64_t>(std::floor((cubic ? -2 : -1) / reach)) + 1;
  made.taps = nearest ? 1 : (cubic ? 2 - first : 2 - first) - first;
  made.size = to;
  made.places.resize(static_cast<std::size_t>(made.taps * to));
  made.weights.resize(made.places.size());
  for (std::int64_t i = 0; i < to; ++i) {
    const auto at = static_cast<double>(i);
    double x = (at + 0.5) / scale - 0.5;
    if (how.coordinates == "align_corners") x = exact == 1 ? 0 : at * last / (exact - 1);
    if (how.coordinates == "asymmetric") x = at / scale;
    if (how.coordinates == "pytorch_half_pixel" && exact == 1) x = -0.5;
    if (how.coordinates == "half_pixel_symmetric")
      x += static_cast<double>(from) / 2 * (1 - static_cast<double>(to) / exact);
    if (how.coordinates == "tf_half_pixel_for_nn") x = (at + 0.5) / scale;
    bool outside = false;
    if (how.coordinates == "tf_crop_and_resize") {
      x = roi_begin * last + (to == 1 ? (roi_end - roi_begin) * last / 2
                                      : at * (roi_end - roi_begin) * last / static_cast<double>(to - 1));
      outside = x < 0 || x > last;
    }
    made.outside.push_back(outside);
    const double base = std::floor(x), part = x - base;
    if (nearest) {
      const bool up = how.nearest == "ceil"                ? part > 0
                      : how.nearest == "floor"             ? false
                      : how.nearest == "round_prefer_ceil" ? part >= 0.5
                                                           : part > 0.5;
      made.places[static_cast<std::size_t>(i)] =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(base) + up, 0, from - 1);
      continue;
    }
    double total = 0;
    for (std::int64_t tap = 0; tap < made.taps; ++tap) {
      const std::int64_t place = static_cast<std::int64_t>(base) + first + tap;
      const double distance = (static_cast<double>(first + tap) - part) * reach;
      double weight = cubic ? cubic_weight(how.cubic, distance) : std::max(1 - std::abs(distance), 0.0);
      if (how.excludes_outside && (place < 0 || place >= from)) weight = 0;
      const auto index = static_cast<std::size_t>(tap * to + i);
      made.places[index] = std::clamp<std::int64_t>(place, 0, from - 1);
      made.weights[index] = weight;
      total += weight;
    }
    if (how.antialias || how.excludes_outside)
      for (std::int64_t tap = 0; tap < made.taps; ++tap) made.weights[static_cast<std::size_t>(tap * to + i)] /= total;
  }
  return made;
}
Tensor vector_of(const NodeCall& c, const KnownElements& elements) {
  return Value(elements).tensor(c.device(), c.loc());
}
Tensor resized_axis(const NodeCall& c, const Tensor& x, int axis, const AxisTaps& taps) {
  Tensor result;
  std::vector<Dim> beside(static_cast<std::size_t>(x.rank()), Dim(1));
  beside[static_cast<std::size_t>(axis)] = taps.size;
  for (std::int64_t tap = 0; tap < taps.taps; ++tap) {
    const auto begin = tap * taps.size;
    KnownElements places{DType::i64, {taps.size}}, weights{DType::f64, {taps.size}};
    places.integers.assign(taps.places.begin() + begin, taps.places.begin() + begin + taps.size);
    weights.numbers.assign(taps.weights.begin() + begin, taps.weights.begin() + begin + taps.size);
    Tensor part = index_select(x, axis, vector_of(c, places));
    if (taps.weights[0] != 0 || taps.taps > 1) part = part * reshape(cast(vector_of(c, weights), x.dtype()), beside);
    result = tap == 0 ? part : result + part;
  }
  return result;
}
void resize_by(NodeCall& c, const Resizing& how, std::size_t roi_input, std::size_t scales_input,
               std::size_t sizes_input) {
  Tensor x = c.tensor();
  const int rank = x.rank();
  Integers axes = c.integers(std::string_view("axes"));
  if (axes.empty())
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  const std::size_t n = axes.size();
  std::vector<double> scales = c.has("scales")                       ? c.numbers(std::string_view("scales"))
                               : scales_input && c.has(scales_input) ? c.numbers(scales_input)
                                                                     : std::vector<double>();
  std::vector<Dim> sizes;
  if (scales.empty() && sizes_input && c.has(sizes_input)) sizes = c.sizes(sizes_input);
  if (scales.size() != n && sizes.size() != n) c.refuse("wants a scale or a size for each of ", n, " axes");
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (!sizes.empty() && policy != "stretch") {
    double scale = policy == "not_larger" ? std::numeric_limits<double>::infinity() : 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double each = static_cast<double>(static_cast<std::int64_t>(sizes[i])) /
                          static_cast<double>(static_cast<std::int64_t>(x.size(c.checked_axis(axes[i], rank))));
      scale = policy == "not_larger" ? std::min(scale, each) : std::max(scale, each);
    }
    for (std::size_t i = 0; i < n; ++i)
      sizes[i] = static_cast<std::int64_t>(std::floor(
          scale * static_cast<double>(static_cast<std::int64_t>(x.size(c.checked_axis(axes[i], rank)))) + 0.5));
    scales.assign(n, scale);
  }
  std::vector<double> roi;
  if (roi_input && how.coordinates == "tf_crop_and_resize") roi = c.numbers(roi_input);
  // Symbolic sizes: what interpolate() does, of images.
  bool symbolic = false;
  for (std::size_t i = 0; i < n; ++i) {
    const Dim size = x.size(c.checked_axis(axes[i], rank));
    symbolic = symbolic || (!size.is_constant() && (sizes.empty() ? scales[i] != 1 : !sizes[i].same(size)));
  }
  if (symbolic && rank == 4 && policy == "stretch" && !how.antialias && n == 4) {
    std::vector<Dim> to;
    for (std::size_t i = 2; i < 4; ++i)
      to.push_back(!sizes.empty() ? sizes[i] : x.size(static_cast<int>(i)) * Dim(static_cast<std::int64_t>(scales[i])));
    const bool whole = !sizes.empty() || (scales[2] == std::floor(scales[2]) && scales[3] == std::floor(scales[3]));
    const bool linear =
        how.mode == "linear" && (how.coordinates == "half_pixel" || how.coordinates == "pytorch_half_pixel" ||
                                 how.coordinates == "align_corners");
    const bool nearest = how.mode == "nearest" && how.coordinates == "asymmetric" && how.nearest == "floor";
    if (whole && (linear || nearest))
      return c.give(nn::interpolate(x, {.size = to,
                                        .mode = linear ? nn::Interpolation::bilinear : nn::Interpolation::nearest,
                                        .align_corners = linear && how.coordinates == "align_corners"}));
  }
  Tensor outside;
  for (std::size_t i = 0; i < n; ++i) {
    const int axis = c.checked_axis(axes[i], rank);
    const Dim own = x.size(axis);
    if (scales.empty() ? sizes[i].same(own) && roi.empty() : scales[i] == 1 && roi.empty()) continue;
    const auto from = static_cast<std::int64_t>(own);
    const std::int64_t to = sizes.empty() ? static_cast<std::int64_t>(std::floor(scales[i] * static_cast<double>(from)))
                                          : static_cast<std::int64_t>(sizes[i]);
    if (from < 1 || to < 1 || (!scales.empty() && !(scales[i] > 1e-3 && scales[i] < 1e6)) || to > std::int64_t{1} << 24)
      c.refuse("makes ", to, " of ", from, " elements of axis ", axis);
    const double scale = scales.empty() ? static_cast<double>(to) / static_cast<double>(from) : scales[i];
    const AxisTaps taps = taps_of(how, from, to, scale, roi.empty() ? 0 : roi.at(i), roi.empty() ? 1 : roi.at(i + n));
    x = resized_axis(c, x, axis, taps);
    if (std::ranges::count(taps.outside, true)) {
      KnownElements here{DType::boolean, Integers(static_cast<std::size_t>(rank), 1)};
      here.sizes[static_cast<std::size_t>(axis)] = to;
      for (bool each : taps.outside) here.integers.push_back(Dim(int{each}));
      const Tensor mask = vector_of(c, here);
      outside = outside.defined() ? outside | mask : mask;
    }
  }
  c.give(outside.defined() ? where(outside, how.outside, x) : x);
}
void resize(NodeCall& c) {
  Resizing how;
  how.mode = c.text("mode", "nearest");
  how.cubic = c.number("cubic_coeff_a", -0.75);
  how.outside = c.number("extrapolation_value", 0);
  how.antialias = c.integer("antialias", 0) && how.mode != "nearest";
  how.excludes_outside = c.integer("exclude_outside", 0);
  how.coordinates = c.text("coordinate_transformation_mode", c.version() < 11 ? "asymmetric" : "half_pixel");
  how.nearest = c.text("nearest_mode", c.version() < 11 ? "floor" : "round_prefer_floor");
  c.version() < 11 ? resize_by(c, how, 0, 1, 0) : resize_by(c, how, 1, 2, 3);
}
void upsample(NodeCall& c) {
  Resizing how;
  how.mode = c.text("mode", "nearest");
  how.coordinates = "asymmetric";
  how.nearest = "floor";
  resize_by(c, how, 0, 1, 0);
}

// ---- samples at any place -------------------------------------------------------------------------------------------

// Elements of x [N, C, H, W] at whole places [N, P], read by the rule of the padding.
Tensor at_places(const Tensor& x, const Tensor& row, const Tensor& column, const std::string& padding, bool align) {
  const auto within = [&](const Tensor& place, Dim size) {
    const Tensor last = full({}, At(size - Dim(1)), {DType::f64, x.device()});
    if (padding != "reflection") return clamp(place, 0, last);
    const Tensor low = full({}, align ? 0.0 : -0.5, {DType::f64, x.device()}), span = align ? last : last + 1;
    const Tensor far = abs(place - low), rest = fmod(far, span), turns = floor(far / span);
    return clamp(where(fmod(turns, 2) == 0, rest + low, span - rest + low), 0, last);
  };
  const Tensor i = cast(within(row, x.size(2)), DType::i64), j = cast(within(column, x.size(3)), DType::i64);
  const Tensor flat = reshape(x, {x.size(0), x.size(1), x.size(2) * x.size(3)});
  const Tensor index = unsqueeze(i * At(x.size(3)) + j, 1);
  Tensor found = gather(flat, 2, expand(index, {x.size(0), x.size(1), index.size(2)}));
  if (padding == "zeros") {
    const Tensor inside = (row >= 0) & (row < At(x.size(2))) & (column >= 0) & (column < At(x.size(3)));
    found = where(unsqueeze(inside, 1), found, 0);
  }
  return found;
}
void grid_sample(NodeCall& c) {
  const Tensor x = c.tensor(0), grid = c.tensor(1);
  const std::string mode = c.text("mode", "linear"), padding = c.text("padding_mode", "zeros");
  const bool align = c.integer("align_corners", 0);
  if (mode != "cubic" && mode != "bicubic") {
    nn::GridSampleOptions options;
    options.mode = mode == "nearest" ? nn::SampleMode::nearest : nn::SampleMode::bilinear;
    options.padding_mode = padding == "zeros"    ? nn::SamplePadding::zeros
                           : padding == "border" ? nn::SamplePadding::border
                                                 : nn::SamplePadding::reflection;
    options.align_corners = align;
    return c.give(nn::grid_sample(x, cast(grid, x.dtype()), options));
  }
  if (x.rank() != 4) c.refuse("reads cubically between elements of two axes alone");
  const auto coordinate = [&](int part, Dim size) {
    const Tensor g = cast(flatten(select(grid, 3, part), 1, 2), DType::f64);
    return align ? (g + 1) * At(size - Dim(1)) / 2 : ((g + 1) * At(size) - 1) / 2;
  };
  const Tensor u = coordinate(0, x.size(3)), v = coordinate(1, x.size(2));
  const Tensor column = floor(u), row = floor(v), fu = u - column, fv = v - row;
  const auto weight = [](const Tensor& distance) {
    const Tensor d = abs(distance);
    const double a = -0.75;
    return where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a);
  };
  Tensor total;
  for (int i = -1; i <= 2; ++i) {
    Tensor line;
    for (int j = -1; j <= 2; ++j) {
      const Tensor part =
          at_places(x, row + i, column + j, padding, align) * cast(unsqueeze(weight(fu - j), 1), x.dtype());
      line = j == -1 ? part : line + part;
    }
    line = line * cast(unsqueeze(weight(fv - i), 1), x.dtype());
    total = i == -1 ? line : total + line;
  }
  c.give(reshape(total, {x.size(0), x.size(1), grid.size(1), grid.size(2)}));
}
void affine_grid(NodeCall& c) { c.give(nn::affine_grid(c.tensor(0), c.sizes(1), c.integer("align_corners", 0))); }
void roi_align(NodeCall& c) {
  const Tensor x = c.tensor(0), boxes = c.tensor(1), of = c.tensor(2);
  if (c.text("mode", "avg") != "avg") c.refuse("takes means alone: of mode max it is not done");
  nn::RoiAlignOptions options;
  options.spatial_scale = c.number("spatial_scale", 1);
  options.sampling_ratio = c.integer("sampling_ratio", 0);
  if (options.sampling_ratio < 1) c.refuse("wants a sampling_ratio: without one it is not done");
  options.aligned =
      c.text("coordinate_transformation_mode", c.version() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  c.give(nn::roi_align(x, concat({unsqueeze(cast(of, boxes.dtype()), 1), boxes}, 1),
                       {c.integer("output_height", 1), c.integer("output_width", 1)}, options));
}
void non_max_suppression(NodeCall& c) {
  const Tensor boxes = c.tensor(0), scores = c.tensor(1);
  const std::int64_t most = c.has(std::size_t{2}) ? c.integer_at(2) : 0;
  const double overlap = c.has(std::size_t{3}) ? c.number_at(3) : 0;
  const auto batches = static_cast<std::int64_t>(scores.size(0)), classes = static_cast<std::int64_t>(scores.size(1));
  const bool centres = c.integer("center_point_box", 0);
  std::vector<Tensor> found;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const Tensor b = select(boxes, 0, batch);
    const Tensor p = slice(b, 1, 0, 2), q = slice(b, 1, 2, 4);
    const Tensor low = centres ? p - q / 2 : minimum(p, q), high = centres ? p + q / 2 : maximum(p, q);
    for (std::int64_t each = 0; each < classes; ++each) {
      const Tensor own = select(select(scores, 0, batch), 0, each);
      Tensor stays = nn::nms_mask(concat({low, high}, 1), own, overlap);
      if (c.has(std::size_t{4})) stays = stays & (own > c.tensor(4));
      const Tensor order = argsort(own, -1, true), sorted = gather(stays, order);
      const Tensor wanted = sorted & (cumsum(cast(sorted, DType::i64), 0) <= most);
      const Tensor kept = gather(order, select(nonzero(wanted), 1, 0));
      found.push_back(stack({full_like(kept, batch), full_like(kept, each), kept}, 1));
    }
  }
  c.give(concat(found, 0));
}

// ---- windows --------------------------------------------------------------------------------------------------------

// Columns [N, C k, windows] where they came from, of any number of axes.
void columns_to_image(NodeCall& c) {
  const Tensor x = c.tensor();
  const Integers image = c.integers(std::size_t{1}), block = c.integers(std::size_t{2});
  const std::size_t n = image.size();
  constexpr std::int64_t most = 1 << 20;
  const auto positive = [](std::int64_t each) { return each >= 1 && each <= most; };
  for (const Integers& each : {image, block})
    if (each.size() != n || n == 0 || n > 6 || !std::ranges::all_of(each, positive))
      c.refuse("wants sizes of images and blocks that are positive, of up to 6 axes");
  const Integers strides = c.integers(std::string_view("strides"), Integers(n, 1));
  const Integers dilations = c.integers(std::string_view("dilations"), Integers(n, 1));
  const Integers pads = c.integers(std::string_view("pads"), Integers(2 * n, 0));
  if (strides.size() != n || dilations.size() != n || pads.size() != 2 * n || !std::ranges::all_of(strides, positive) ||
      !std::ranges::all_of(dilations, positive) ||
      std::ranges::any_of(pads, [](std::int64_t each) { return each < -most || each > most; }))
    c.refuse("strides, dilations and pads must be for ", n, " axes, none too large, and the first two positive");
  Integers windows;
  std::int64_t places = 1;
  for (std::size_t i = 0; i < n; ++i) {
    windows.push_back((image[i] + pads[i] + pads[i + n] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1);
    places *= block[i];
    if (windows.back() < 1 || places > most) c.refuse("its blocks do not fit its images, or are too large");
  }
  std::vector<Dim> sizes{x.size(0), x.size(1) / Dim(places), Dim(places)};
  sizes.insert(sizes.end(), windows.begin(), windows.end());
  const Tensor parts = reshape(x, sizes);
  Tensor total;
  for (std::int64_t place = 0; place < places; ++place) {
    Tensor part = select(parts, 2, place);
    std::int64_t rest = place;
    for (std::size_t i = n; i-- > 0;) {
      const std::int64_t before = rest % block[i] * dilations[i], whole = image[i] + pads[i] + pads[i + n];
      rest /= block[i];
      part = pad(part, static_cast<int>(i) + 2, before, whole - before - ((windows[i] - 1) * strides[i] + 1),
                 strides[i] - 1);
    }
    total = place == 0 ? part : total + part;
  }
  for (std::size_t i = 0; i < n; ++i) total = slice(total, static_cast<int>(i) + 2, pads[i], pads[i] + image[i]);
  c.give(total);
}
void max_unpool(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const Integers kernel = c.integers(std::string_view("kernel_shape"));
  const std::size_t n = kernel.size();
  const Integers strides = c.integers(std::string_view("strides"), Integers(n, 1)),
                 pads = c.integers(std::string_view("pads"), Integers(2 * n, 0));
  if (n != static_cast<std::size_t>(x.rank() - 2) || strides.size() != n || pads.size() != 2 * n)
    c.refuse("kernel_shape, strides and pads must be for ", x.rank() - 2, " axes");
  std::vector<Dim> sizes{x.size(0), x.size(1)};
  for (std::size_t i = 0; i < n; ++i)
    sizes.push_back((x.size(static_cast<int>(i) + 2) - Dim(1)) * Dim(strides[i]) + Dim(kernel[i]) - Dim(pads[i]) -
                    Dim(pads[i + n]));
  const Tensor empty = zeros(sizes, {x.dtype(), x.device()});
  Tensor y = put(empty, c.tensor(1), x);
  if (c.has(std::size_t{2})) {
    const std::vector<Dim> wanted = c.sizes(2);
    for (int axis = 2; axis < y.rank(); ++axis)
      y = pad(y, axis, 0, wanted.at(static_cast<std::size_t>(axis)) - y.size(axis));
  }
  c.give(y);
}
void deformable_convolution(NodeCall& c) {
  const Tensor x = c.tensor(0), w = c.tensor(1), offset = c.tensor(2), mask = c.optional(4);
  if (x.rank() != 4) c.refuse("is done along two axes alone");
  const Integers strides = c.integers(std::string_view("strides"), {1, 1}),
                 dilations = c.integers(std::string_view("dilations"), {1, 1}),
                 pads = c.integers(std::string_view("pads"), {0, 0, 0, 0});
  const std::int64_t groups = c.positive("group", 1), parts = c.positive("offset_group", 1);
  if (strides.size() != 2 || dilations.size() != 2 || pads.size() != 4)
    c.refuse("strides, dilations and pads must be for 2 axes");
  const auto kh = static_cast<std::int64_t>(w.size(2)), kw = static_cast<std::int64_t>(w.size(3));
  const Dim n = x.size(0), channels = x.size(1), h = offset.size(2), width = offset.size(3), points = h * width;
  const Tensor images = reshape(x, {n * Dim(parts), channels / Dim(parts), x.size(2), x.size(3)});
  const Tensor moves = reshape(cast(offset, DType::f64), {n * Dim(parts), kh * kw, 2, points});
  const Tensor rows = reshape(expand(reshape(arange(h, {DType::i64, x.device()}), {-1, 1}), {h, width}), {points});
  const Tensor columns = reshape(expand(arange(width, {DType::i64, x.device()}), {h, width}), {points});
  std::vector<Tensor> samples;
  for (std::int64_t k = 0; k < kh * kw; ++k) {
    const Tensor move = select(moves, 1, k);
    const Tensor v = rows * strides[0] + (k / kw * dilations[0] - pads[0]) + select(move, 1, 0);
    const Tensor u = columns * strides[1] + (k % kw * dilations[1] - pads[1]) + select(move, 1, 1);
    const Tensor top = floor(v), left = floor(u), fv = v - top, fu = u - left;
    Tensor sample;
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        const Tensor weight = (i ? fv : 1 - fv) * (j ? fu : 1 - fu);
        const Tensor part = at_places(images, top + i, left + j, "zeros", true) * cast(unsqueeze(weight, 1), x.dtype());
        sample = sample.defined() ? sample + part : part;
      }
    if (mask.defined()) sample = sample * unsqueeze(select(reshape(mask, {n * Dim(parts), kh * kw, points}), 1, k), 1);
    samples.push_back(sample);
  }
  // [n, channels, kernel, points] as [n, groups, channels of a group and kernel, points].
  const Tensor all = reshape(stack(samples, 2), {n, groups, channels / Dim(groups) * Dim(kh * kw), points});
  Tensor y = matmul(reshape(w, {groups, w.size(0) / Dim(groups), -1}), all);
  y = reshape(y, {n, w.size(0), h, width});
  if (c.has(std::size_t{3})) y = y + reshape(c.tensor(3), {-1, 1, 1});
  c.give(y);
}

constexpr OperatorRow rows[] = {
    {"AffineGrid", 20, latest, affine_grid, 2},
    {"Col2Im", 18, latest, columns_to_image, 0b110},
    {"DeformConv", 19, latest, deformable_convolution},
    {"GridSample", 16, latest, grid_sample},
    {"MaxUnpool", 9, latest, max_unpool, 4},
    {"NonMaxSuppression", 10, latest, non_max_suppression, 0b1100},
    {"Resize", 10, latest, resize, 0b1110},
    {"RoiAlign", 10, latest, roi_align},
    {"Upsample", 7, 9, upsample, 2},
};

}  // namespace

std::span<const OperatorRow> image_operators() { return rows; }

}  // namespace weft::onnx
