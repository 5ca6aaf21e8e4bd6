// Operators that give shapes, other views and arrangements of elements, elements at places, and constants.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/call.hpp"
#include "weft/indexing.hpp"
#include "weft/shapes.hpp"

namespace weft::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

KnownElements vector_of(std::vector<Dim> elements) {
  const auto count = static_cast<std::int64_t>(elements.size());
  return {DType::i64, {count}, std::move(elements)};
}

// ---- shapes and constants -------------------------------------------------------------------------------------------

void shape_of(NodeCall& c) {
  const Shape shape = c.value(0).shape();
  const std::int64_t rank = shape.rank();
  const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  std::vector<Dim> sizes;
  for (std::int64_t i = place(c.integer("start", 0)); i < place(c.integer("end", rank)); ++i)
    sizes.push_back(shape[static_cast<int>(i)]);
  c.give(vector_of(std::move(sizes)));
}
void size_of(NodeCall& c) { c.give(KnownElements{DType::i64, {}, {c.value(0).shape().element_count()}}); }

void constant_value(NodeCall& c) {
  if (const AttributeData* const found = c.node().find("value"); found && found->tensor) {
    if (!has_dtype(found->tensor->type)) c.refuse("is of ", element_name(found->tensor->type), ", which is no dtype");
    if (found->tensor->count() <= most_known_elements) return c.give(known_elements(*found->tensor, c.loc()));
    return c.give(constant_of(*found->tensor, c.device(), c.loc()));
  }
  if (c.has("value_int")) return c.give(known_integers({c.integer("value_int", 0)}, {}));
  if (c.has("value_float")) return c.give(KnownElements{DType::f32, {}, {}, {c.number("value_float", 0)}});
  if (c.has("value_floats")) {
    const auto all = c.numbers("value_floats");
    return c.give(KnownElements{DType::f32, {static_cast<std::int64_t>(all.size())}, {}, all});
  }
  if (c.has("value_ints")) {
    const auto all = c.integers(std::string_view("value_ints"));
    return c.give(known_integers(all, {static_cast<std::int64_t>(all.size())}));
  }
  c.refuse("has no value of numbers");
}
void constant_of_shape(NodeCall& c) {
  KnownElements value{DType::f32, {1}, {}, {0}};
  if (const AttributeData* const found = c.node().find("value"); found && found->tensor)
    value = known_elements(*found->tensor, c.loc());
  if (value.count() != 1) c.refuse("wants a value of one element");
  const std::vector<Dim> sizes = c.sizes(0);
  Dim count = 1;
  bool known = true;
  for (Dim each : sizes) {
    known = known && each.is_constant() && each.constant() >= 0;
    count *= each;
  }
  if (known && count.constant() <= 64 && !is_floating(value.dtype) && value.exact.empty()) {
    KnownElements made{value.dtype};
    for (Dim each : sizes) made.sizes.push_back(each.constant());
    made.integers.assign(static_cast<std::size_t>(count.constant()), value.integers[0]);
    return c.give(std::move(made));
  }
  const Options options{value.dtype, c.device()};
  if (!value.exact.empty()) {
    value.sizes = {};
    return c.give(expand(Value(std::move(value)).tensor(c.device(), c.loc()), sizes));
  }
  c.give(is_floating(value.dtype) ? full(sizes, value.numbers[0], options) : full(sizes, value.integers[0], options));
}
void range_of(NodeCall& c) {
  const DType dtype = c.value(0).dtype();
  if (!is_floating(dtype)) {
    const Dim start = c.sizes(0).at(0), stop = c.sizes(1).at(0), step = c.sizes(2).at(0);
    if (start.is_constant() && stop.is_constant() && step.is_constant() && step.constant() != 0 &&
        std::abs((stop.constant() - start.constant()) / step.constant()) < most_known_elements) {
      KnownElements made{dtype, {0}};
      for (std::int64_t at = start.constant(); step.constant() > 0 ? at < stop.constant() : at > stop.constant();
           at += step.constant())
        made.integers.push_back(at);
      made.sizes[0] = static_cast<std::int64_t>(made.integers.size());
      return c.give(std::move(made));
    }
    return c.give(arange(start, stop, step, {dtype, c.device()}));
  }
  const double start = c.number_at(0), stop = c.number_at(1), step = c.number_at(2);
  if (step == 0) c.refuse("the step is 0");
  const double count = std::max(std::ceil((stop - start) / step), 0.0);
  c.give(
      cast(cast(arange(Dim(static_cast<std::int64_t>(count)), {DType::i64, c.device()}), dtype) * step + start, dtype));
}
void eye_like(NodeCall& c) {
  const Tensor x = c.tensor();
  const auto type = static_cast<int>(c.integer("dtype", element_type(x.dtype())));
  if (!has_dtype(type)) c.refuse("is of ", element_name(type), ", which is no dtype");
  const Tensor rows = reshape(arange(x.size(0), {DType::i64, x.device()}), {-1, 1});
  const Tensor columns = arange(x.size(1), {DType::i64, x.device()});
  c.give(cast(rows + c.integer("k", 0) == columns, dtype_of_element(type)));
}

// ---- other views ----------------------------------------------------------------------------------------------------

void reshape_to_sizes(NodeCall& c) {
  const Tensor x = c.tensor();
  std::vector<Dim> sizes = c.sizes(1);
  if (!c.integer("allowzero", 0))
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i].same(Dim(0))) sizes[i] = x.size(c.checked_axis(static_cast<std::int64_t>(i), x.rank()));
  // Of symbolic sizes -1 is a quotient, which reshape() does not need where one size stays as it is.
  c.give(reshape(x, sizes));
}
void flatten_to_two(NodeCall& c) {
  const Tensor x = c.tensor();
  const int rank = x.rank();
  std::int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) c.refuse("there is no axis ", axis, " of ", rank);
  if (axis < 0) axis += rank;
  Dim rows = 1, columns = 1;
  for (int i = 0; i < rank; ++i) (i < axis ? rows : columns) *= x.size(i);
  c.give(reshape(x, {rows, columns}));
}
void squeeze_axes(NodeCall& c) {
  const Tensor x = c.tensor();
  const int rank = x.rank();
  const auto axes = c.integers("axes", std::size_t{1});
  std::vector<Dim> sizes;
  for (int axis = 0; axis < rank; ++axis) {
    bool goes = !axes && x.size(axis) == Dim(1);
    for (std::int64_t each : axes.value_or(Integers())) goes = goes || c.checked_axis(each, rank) == axis;
    if (!goes) sizes.push_back(x.size(axis));
  }
  c.give(reshape(x, sizes));
}
void unsqueeze_axes(NodeCall& c) {
  const Tensor x = c.tensor();
  auto axes = c.integers("axes", std::size_t{1});
  if (!axes) c.refuse("wants axes");
  const int rank = x.rank() + static_cast<int>(axes->size());
  for (std::int64_t& each : *axes) each = c.checked_axis(each, rank);
  std::vector<Dim> sizes;
  for (int axis = 0, next = 0; axis < rank; ++axis)
    sizes.push_back(std::ranges::count(*axes, axis) ? Dim(1) : x.size(next++));
  c.give(reshape(x, sizes));
}
void transpose_axes(NodeCall& c) {
  const Tensor x = c.tensor();
  Integers axes = c.integers(std::string_view("perm"));
  if (axes.empty())
    for (int axis = x.rank(); axis-- > 0;) axes.push_back(axis);
  c.give(axes.empty() ? x : permute(x, axes));
}
void expand_to(NodeCall& c) {
  const Tensor x = c.tensor();
  const std::vector<Dim> wanted = c.sizes(1);
  const int rank = std::max(x.rank(), static_cast<int>(wanted.size()));
  std::vector<Dim> sizes;
  for (int i = 0; i < rank; ++i) {
    const int own = i - (rank - x.rank()), other = i - (rank - static_cast<int>(wanted.size()));
    const Dim size = own >= 0 ? x.size(own) : Dim(1);
    const Dim to = other >= 0 ? wanted[static_cast<std::size_t>(other)] : Dim(1);
    sizes.push_back(size.same(Dim(1)) || (!to.same(Dim(1)) && size == Dim(1)) ? to : size);
  }
  c.give(expand(x, sizes));
}
void tile_by(NodeCall& c) { c.give(tile(c.tensor(), c.sizes(1))); }

void slice_parts(NodeCall& c) {
  Tensor x = c.tensor();
  const bool attributes = c.version() < 10;
  std::vector<Dim> starts, stops, steps;
  Integers axes;
  if (attributes) {
    for (std::int64_t each : c.integers(std::string_view("starts"))) starts.push_back(each);
    for (std::int64_t each : c.integers(std::string_view("ends"))) stops.push_back(each);
    axes = c.integers(std::string_view("axes"));
  } else {
    starts = c.sizes(1), stops = c.sizes(2);
    if (c.has(std::size_t{3})) axes = c.integers(std::size_t{3});
    if (c.has(std::size_t{4})) steps = c.sizes(4);
  }
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (stops.size() != starts.size() || axes.size() != starts.size() ||
      (!steps.empty() && steps.size() != starts.size()))
    c.refuse("starts, ends, axes and steps are of different lengths");
  for (std::size_t i = 0; i < starts.size(); ++i)
    x = slice(x, c.checked_axis(axes[i], x.rank()), starts[i], stops[i], steps.empty() ? Dim(1) : steps[i]);
  c.give(x);
}
void split_parts(NodeCall& c) {
  const Tensor x = c.tensor();
  const int axis = c.axis("axis", 0, x.rank());
  std::vector<Dim> sizes;
  if (c.has("split"))
    for (std::int64_t each : c.integers(std::string_view("split"))) sizes.push_back(each);
  else if (c.has(std::size_t{1}))
    sizes = c.sizes(1);
  else {
    const auto count = c.positive("num_outputs", static_cast<std::int64_t>(c.node().outputs.size()));
    const Dim part = (x.size(axis) + Dim(count - 1)) / Dim(count);
    for (std::int64_t i = 0; i + 1 < count; ++i) sizes.push_back(part);
    sizes.push_back(x.size(axis) - part * Dim(count - 1));
  }
  Dim at = 0;
  for (Dim size : sizes) {
    c.give(slice(x, axis, at, at + size));
    at += size;
  }
}
void concat_parts(NodeCall& c) {
  const int rank = c.value(0).rank();
  c.give(concat(c.tensors(), c.axis("axis", 0, rank)));
}
void pad_ends(NodeCall& c) {
  const Tensor x = c.tensor();
  const int rank = x.rank();
  std::vector<Dim> pads;
  if (c.version() < 11)
    for (std::int64_t each : c.integers(std::string_view("pads"))) pads.push_back(each);
  else
    pads = c.sizes(1);
  Integers axes;
  if (c.has(std::size_t{3})) axes = c.integers(std::size_t{3});
  if (axes.empty())
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  if (pads.size() != axes.size() * 2)
    c.refuse("wants two pads for each of ", axes.size(), " axes, and has ", pads.size());
  std::vector<Dim> widths(static_cast<std::size_t>(rank) * 2, Dim(0));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto back = static_cast<std::size_t>(rank - 1 - c.checked_axis(axes[i], rank)) * 2;
    widths[back] = pads[i];
    widths[back + 1] = pads[i + axes.size()];
  }
  const std::string mode = c.text("mode", "constant");
  const Pads how = mode == "reflect" ? Pads::reflect
                   : mode == "edge"  ? Pads::replicate
                   : mode == "wrap"  ? Pads::circular
                                     : Pads::constant;
  while (widths.size() > 2 && widths[widths.size() - 1].same(Dim(0)) && widths[widths.size() - 2].same(Dim(0)))
    widths.resize(widths.size() - 2);
  if (how != Pads::constant) return c.give(pad(x, widths, how));
  if (c.version() >= 11 && c.has(std::size_t{2})) {
    const Value& fill = c.value(2);
    if (fill.host() && fill.host()->numbers.size() == 1) return c.give(pad(x, widths, how, fill.host()->numbers[0]));
    if (fill.host() && fill.host()->integers.size() == 1 && fill.host()->exact.empty())
      return c.give(pad(x, widths, how, fill.host()->integers[0]));
    return c.give(pad(x, widths, how, reshape(c.tensor(2), std::vector<Dim>())));
  }
  c.give(pad(x, widths, how, c.number("value", 0)));
}
void crop_or_pad(NodeCall& c) {
  Tensor x = c.tensor();
  const Integers wanted = c.integers(std::size_t{1});
  Integers axes = c.integers(std::string_view("axes"));
  if (axes.empty())
    for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = c.checked_axis(axes[i], x.rank());
    const auto size = static_cast<std::int64_t>(x.size(axis)), to = wanted.at(i);
    if (to > size)
      x = pad(x, axis, (to - size) / 2, (to - size) - (to - size) / 2);
    else
      x = slice(x, axis, (size - to) / 2, (size - to) / 2 + to);
  }
  c.give(x);
}
// [N, C, H, W] and the blocks of a depth.
void depth_to_space(NodeCall& c) {
  const Tensor x = c.tensor();
  const Dim n = x.size(0), h = x.size(2), w = x.size(3), b = c.positive("blocksize", 1), depth = x.size(1) / (b * b);
  const Tensor parts = c.text("mode", "DCR") == "DCR" ? permute(reshape(x, {n, b, b, depth, h, w}), {0, 3, 4, 1, 5, 2})
                                                      : permute(reshape(x, {n, depth, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  c.give(reshape(parts, {n, depth, h * b, w * b}));
}
void space_to_depth(NodeCall& c) {
  const Tensor x = c.tensor();
  const Dim n = x.size(0), depth = x.size(1), b = c.positive("blocksize", 1), h = x.size(2) / b, w = x.size(3) / b;
  c.give(reshape(permute(reshape(x, {n, depth, h, b, w, b}), {0, 3, 5, 1, 2, 4}), {n, depth * b * b, h, w}));
}
void trilu(NodeCall& c) {
  const Tensor x = c.tensor();
  const std::int64_t k = c.has(std::size_t{1}) ? c.integer_at(1) : 0;
  c.give(c.integer("upper", 1) ? triu(x, k) : tril(x, k));
}
void reverse_sequence(NodeCall& c) {
  const Tensor x = c.tensor(0), lengths = c.tensor(1);
  const int batch = c.axis("batch_axis", 1, x.rank()), time = c.axis("time_axis", 0, x.rank());
  const auto along = [&](int axis, const Tensor& values) {
    std::vector<Dim> sizes(static_cast<std::size_t>(x.rank()), Dim(1));
    sizes[static_cast<std::size_t>(axis)] = x.size(axis);
    return reshape(values, sizes);
  };
  const Tensor at = along(time, arange(x.size(time), {DType::i64, x.device()})), count = along(batch, lengths);
  c.give(gather(x, time, expand(where(at < count, count - 1 - at, at), x.shape())));
}

// ---- elements at places ---------------------------------------------------------------------------------------------

// Places from 0 on.
Tensor counted_from_start(const Tensor& places, Dim size) {
  const Tensor wide = cast(places, DType::i64);
  return where(wide < 0, wide + At(size), wide);
}
void gather_slices(NodeCall& c) {
  const Tensor x = c.tensor();
  const int axis = c.axis("axis", 0, x.rank());
  const Value& at = c.value(1);
  if (at.host() && at.rank() == 0 && !at.host()->symbolic()) return c.give(select(x, axis, at.host()->integers[0]));
  Tensor places = at.tensor(c.device(), c.loc());
  bool from_start = at.host() != nullptr;
  if (at.host())
    for (Dim each : at.host()->integers) from_start = from_start && each.is_constant() && each.constant() >= 0;
  places = from_start ? cast(places, DType::i64) : counted_from_start(places, x.size(axis));
  if (axis == 0) return c.give(gather(x, places));
  if (places.rank() == 1) return c.give(index_select(x, axis, places));
  Tensor rows = gather(movedim(x, axis, 0), places);
  // The axes of the places come first, and go where the axis was.
  std::vector<int> order;
  const int indices = places.rank();
  for (int i = 0; i < axis; ++i) order.push_back(indices + i);
  for (int i = 0; i < indices; ++i) order.push_back(i);
  for (int i = axis; i < x.rank() - 1; ++i) order.push_back(indices + i);
  c.give(permute(rows, order));
}
void gather_elements(NodeCall& c) {
  const Tensor x = c.tensor();
  const int axis = c.axis("axis", 0, x.rank());
  c.give(gather(x, axis, counted_from_start(c.tensor(1), x.size(axis))));
}
// The number of each place among the rows that its last axis names, of the axes of `sizes` from `first` on.
Tensor row_numbers(const Tensor& places, const Shape& sizes, int first) {
  const int last = places.rank() - 1;
  const auto count = static_cast<int>(static_cast<std::int64_t>(places.size(last)));
  Tensor numbers;
  for (int i = 0; i < count; ++i) {
    const Dim size = sizes[first + i];
    const Tensor at = counted_from_start(select(places, last, i), size);
    numbers = i == 0 ? at : numbers * At(size) + at;
  }
  return numbers;
}
void gather_nd(NodeCall& c) {
  const Tensor x = c.tensor(0), places = c.tensor(1);
  const int batch = static_cast<int>(c.integer("batch_dims", 0)), last = places.rank() - 1;
  const auto named = static_cast<int>(static_cast<std::int64_t>(places.size(last)));
  if (batch < 0 || batch > last || named < 1 || batch + named > x.rank())
    c.refuse("names ", named, " axes after ", batch, " of ", x.rank());
  std::vector<Dim> sizes;
  Dim batches = 1, rows = 1;
  for (int i = 0; i < batch; ++i) batches *= x.size(i);
  for (int i = batch; i < batch + named; ++i) rows *= x.size(i);
  for (int i = 0; i < last; ++i) sizes.push_back(places.size(i));
  std::vector<Dim> flat{batches * rows};
  for (int i = batch + named; i < x.rank(); ++i) {
    sizes.push_back(x.size(i));
    flat.push_back(x.size(i));
  }
  Tensor numbers = reshape(row_numbers(places, x.shape(), batch), {batches, -1});
  if (batch > 0) numbers = numbers + reshape(arange(batches, {DType::i64, x.device()}), {-1, 1}) * At(rows);
  c.give(reshape(gather(reshape(x, flat), reshape(numbers, {-1})), sizes));
}
std::optional<ScatterReduction> reduction_of(const NodeCall& c) {
  const std::string how = c.text("reduction", "none");
  if (how == "add") return ScatterReduction::sum;
  if (how == "mul") return ScatterReduction::prod;
  if (how == "max") return ScatterReduction::amax;
  if (how == "min") return ScatterReduction::amin;
  return {};
}
void scatter_elements(NodeCall& c) {
  const Tensor x = c.tensor();
  const int axis = c.axis("axis", 0, x.rank());
  const Tensor places = counted_from_start(c.tensor(1), x.size(axis));
  const auto how = reduction_of(c);
  c.give(how ? scatter_reduce(x, axis, places, c.tensor(2), *how) : scatter(x, axis, places, c.tensor(2)));
}
void scatter_nd(NodeCall& c) {
  const Tensor x = c.tensor(0), places = c.tensor(1), updates = c.tensor(2);
  const auto named = static_cast<int>(static_cast<std::int64_t>(places.size(-1)));
  if (named < 1 || named > x.rank()) c.refuse("names ", named, " axes of ", x.rank());
  Dim rows = 1, inner = 1;
  for (int i = 0; i < x.rank(); ++i) (i < named ? rows : inner) *= x.size(i);
  const Tensor numbers = reshape(row_numbers(places, x.shape(), 0), {-1});
  const Tensor flat = reshape(x, {rows, inner}), values = reshape(updates, {numbers.size(0), inner});
  const auto how = reduction_of(c);
  const Tensor made = !how                            ? set_rows(flat, numbers, values)
                      : *how == ScatterReduction::sum ? index_add(flat, 0, numbers, values)
                                                      : index_reduce(flat, 0, numbers, values, *how);
  c.give(reshape(made, x.shape()));
}
void one_hot_values(NodeCall& c) {
  const Tensor places = c.tensor(0), values = c.tensor(2);
  const Dim depth = is_floating(c.value(1).dtype()) ? Dim(static_cast<std::int64_t>(c.number_at(1))) : c.sizes(1).at(0);
  const int axis = c.axis("axis", -1, places.rank() + 1);
  std::vector<Dim> sizes(static_cast<std::size_t>(places.rank() + 1), Dim(1));
  sizes[static_cast<std::size_t>(axis)] = depth;
  const Tensor classes = reshape(arange(depth, {DType::i64, places.device()}), sizes);
  c.give(
      where(unsqueeze(counted_from_start(places, depth), axis) == classes, select(values, 0, 1), select(values, 0, 0)));
}
void non_zero(NodeCall& c) { c.give(transpose(nonzero(c.tensor()), 0, 1)); }
void compress(NodeCall& c) {
  const Tensor x = c.has("axis") ? c.tensor() : flatten(c.tensor());
  const int axis = c.has("axis") ? c.axis("axis", 0, x.rank()) : 0;
  c.give(index_select(x, axis, select(nonzero(c.tensor(1)), 1, 0)));
}
// Of slices along an axis, which are in the order of their elements.
void unique_slices(NodeCall& c, int axis) {
  const Tensor x = movedim(c.tensor(), axis, 0);
  const Dim count = x.size(0);
  const Tensor rows = reshape(x, {count, -1}), places = arange(count, {DType::i64, x.device()});
  const Tensor equal = all(unsqueeze(rows, 1) == unsqueeze(rows, 0), 2);
  const Tensor leader = argmax(cast(equal, DType::u8), 1);  // the first slice that is equal
  Tensor order = select(nonzero(leader == places), 1, 0);
  if (c.integer("sorted", 1))
    for (auto column = static_cast<std::int64_t>(rows.size(1)); column-- > 0;)
      order = gather(order, argsort(gather(select(rows, 1, column), order)));
  const Tensor number =
      scatter(zeros({count}, {DType::i64, x.device()}), 0, order, arange(order.size(0), {DType::i64, x.device()}));
  c.give(movedim(gather(x, order), 0, axis));
  c.give(order);
  c.give(gather(number, leader));
  c.give(sum(cast(gather(equal, order), DType::i64), 1));
}
void unique_elements(NodeCall& c) {
  const Tensor x = c.tensor();
  if (c.has("axis") && x.rank() != 1) return unique_slices(c, c.axis("axis", 0, x.rank()));
  const Unique found = unique(flatten(x));
  const Tensor inverse = flatten(found.inverse);
  // Where each value is first: the least place that has it.
  const Tensor count = arange(inverse.size(0), {DType::i64, x.device()});
  const Tensor first = index_reduce(
      full({found.values.size(0)}, Dim(std::numeric_limits<std::int32_t>::max()), {DType::i64, x.device()}), 0, inverse,
      count, ScatterReduction::amin);
  if (c.integer("sorted", 1)) {
    c.give(found.values);
    c.give(first);
    c.give(inverse);
    c.give(found.counts);
    return;
  }
  const Tensor order = argsort(first), rank = argsort(order);
  c.give(gather(found.values, order));
  c.give(gather(first, order));
  c.give(gather(rank, inverse));
  c.give(gather(found.counts, order));
}

constexpr OperatorRow rows[] = {
    {"CenterCropPad", 18, latest, crop_or_pad, 2},
    {"Compress", 9, latest, compress},
    {"Concat", 4, latest, concat_parts},
    {"Constant", 1, latest, constant_value},
    {"ConstantOfShape", 9, latest, constant_of_shape, 1},
    {"DepthToSpace", 1, latest, depth_to_space},
    {"Expand", 8, latest, expand_to, 2},
    {"EyeLike", 9, latest, eye_like},
    {"Flatten", 1, latest, flatten_to_two},
    {"Gather", 1, latest, gather_slices},
    {"GatherElements", 11, latest, gather_elements},
    {"GatherND", 11, latest, gather_nd},
    {"NonZero", 9, latest, non_zero},
    {"OneHot", 9, latest, one_hot_values, 2},
    {"Pad", 2, latest, pad_ends, 0b1110},
    {"Range", 11, latest, range_of, 7},
    {"Reshape", 5, latest, reshape_to_sizes, 2},
    {"ReverseSequence", 10, latest, reverse_sequence},
    {"Scatter", 9, 10, scatter_elements},
    {"ScatterElements", 11, latest, scatter_elements},
    {"ScatterND", 11, latest, scatter_nd},
    {"Shape", 1, latest, shape_of},
    {"Size", 1, latest, size_of},
    {"Slice", 1, latest, slice_parts, 0b11110},
    {"SpaceToDepth", 1, latest, space_to_depth},
    {"Split", 2, latest, split_parts, 2},
    {"Squeeze", 1, latest, squeeze_axes, 2},
    {"Tile", 6, latest, tile_by, 2},
    {"Transpose", 1, latest, transpose_axes},
    {"Trilu", 14, latest, trilu, 2},
    {"Unique", 11, latest, unique_elements},
    {"Unsqueeze", 1, latest, unsqueeze_axes, 2},
};

}  // namespace

std::span<const OperatorRow> shape_operators() { return rows; }

}  // namespace weft::onnx
