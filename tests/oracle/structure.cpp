// What moves elements: views, and what puts arrays together.
#include <algorithm>
#include <set>

#include "oracle/indices.hpp"

namespace oracle {

namespace {
Array put(const Array& g, const Shape& shape, const Source& source);
}
Array take(const Array& x, Shape shape, const Source& source) {
  Array y = make(x->dtype, std::move(shape));
  for (std::size_t i = 0; i < source->size(); ++i) {
    if ((*source)[i] < 0) continue;
    const auto from = static_cast<std::size_t>((*source)[i]);
    if (x.floating())
      y.data->reals[i] = x->reals[from];
    else
      y.data->integers[i] = x->integers[from];
  }
  if (x.floating()) {
    y.data->operands = {x};
    y.data->rules = {[source, to = x->shape](const Array&, const Array& g) { return put(g, to, source); }};
  }
  return y;
}
namespace {
Array put(const Array& g, const Shape& shape, const Source& source) {
  Array y = make(g->dtype, shape);
  std::vector<Sum> sums(y->reals.size());
  for (std::size_t i = 0; i < source->size(); ++i)
    if ((*source)[i] >= 0) sums[static_cast<std::size_t>((*source)[i])].add(static_cast<Wide>(g->reals[i]));
  for (std::size_t i = 0; i < sums.size(); ++i)
    y.data->reals[i] = sums[i].terms ? sums[i].round(g->dtype) : open_zero(0);
  y.data->operands = {g};
  y.data->rules = {[source, to = g->shape](const Array&, const Array& gg) { return take(gg, to, source); }};
  return y;
}
// A view: `at` gives the position in x of the element of these indices.
template <class At>
Array view(const Array& x, const Shape& shape, At at) {
  auto source = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(count_of(shape)));
  each(shape, [&](std::size_t i, const Shape& indices) { (*source)[i] = at(indices); });
  return take(x, shape, source);
}
}  // namespace

// ---- views ----------------------------------------------------------------------------------------------------------

Array reshape(const Array& x, Shape shape) {
  if (shape.empty() && x.rank() == 0) return x;
  std::int64_t known = 1;
  int inferred = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) {
      if (shape[i] < 0) throw Refused("reshape");
      known *= shape[i];
    } else if (inferred >= 0) {
      throw Refused("reshape");
    } else {
      inferred = static_cast<int>(i);
    }
  }
  if (inferred >= 0) {
    if (known == 0 || x.count() % known) throw Refused("reshape");
    shape[static_cast<std::size_t>(inferred)] = x.count() / known;
  } else if (known != x.count()) {
    throw Refused("reshape");
  }
  auto source = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(x.count()));
  for (std::size_t i = 0; i < source->size(); ++i) (*source)[i] = static_cast<std::int64_t>(i);
  return take(x, shape, source);
}
Array flatten(const Array& x, std::int64_t first, std::int64_t last) {
  if (x.rank() == 0) return reshape(x, {1});
  const int from = axis_of("flatten", first, x.rank()), to = axis_of("flatten", last, x.rank());
  if (from > to) throw Refused("flatten");
  Shape shape;
  std::int64_t merged = 1;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t size = x->shape[static_cast<std::size_t>(i)];
    if (i < from || i > to) shape.push_back(size);
    if (i >= from && i <= to) merged *= size;
    if (i == to) shape.push_back(merged);
  }
  return reshape(x, shape);
}
Array permute(const Array& x, const Shape& axes) {
  if (static_cast<int>(axes.size()) != x.rank()) throw Refused("permute");
  if (axes.empty()) return x;
  const Shape from = strides_of(x->shape);
  Shape shape, strides;
  std::set<int> seen;
  for (std::int64_t given : axes) {
    const int axis = axis_of("permute", given, x.rank());
    if (!seen.insert(axis).second) throw Refused("permute");
    shape.push_back(x->shape[static_cast<std::size_t>(axis)]);
    strides.push_back(from[static_cast<std::size_t>(axis)]);
  }
  return view(x, shape, [&](const Shape& at) { return position(at, strides); });
}
Array transpose(const Array& x, std::int64_t a, std::int64_t b) {
  const int first = axis_of("transpose", a, x.rank()), second = axis_of("transpose", b, x.rank());
  Shape axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i == first ? second : i == second ? first : i);
  return permute(x, axes);
}
Array expand(const Array& x, Shape shape) {
  if (shape == x->shape) return x;
  const std::size_t lead = shape.size() - x->shape.size();
  if (shape.size() < x->shape.size()) throw Refused("expand");
  const Shape from = strides_of(x->shape);
  Shape strides(shape.size(), 0);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && i >= lead) shape[i] = x->shape[i - lead];
    if (shape[i] < 0) throw Refused("expand");
    if (i < lead) continue;
    if (x->shape[i - lead] != shape[i] && x->shape[i - lead] != 1) throw Refused("expand");
    strides[i] = x->shape[i - lead] == 1 ? 0 : from[i - lead];
  }
  return view(x, shape, [&](const Shape& at) { return position(at, strides); });
}
Array squeeze(const Array& x, std::int64_t given) {
  const int axis = axis_of("squeeze", given, x.rank());
  Shape shape = x->shape;
  if (shape[static_cast<std::size_t>(axis)] != 1) return x;
  shape.erase(shape.begin() + axis);
  return reshape(x, shape);
}
Array unsqueeze(const Array& x, std::int64_t given) {
  if (x.rank() == 8) throw Refused("unsqueeze");
  const int axis = axis_of("unsqueeze", given, x.rank() + 1);
  Shape shape = x->shape;
  shape.insert(shape.begin() + axis, 1);
  return reshape(x, shape);
}
Array slice(const Array& x, std::int64_t given, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const auto axis = static_cast<std::size_t>(axis_of("slice", given, x.rank()));
  if (step == 0) throw Refused("slice");
  constexpr std::int64_t end = slice_end;
  const Integer size = x->shape[axis];
  const auto place = [&](std::int64_t at) -> Integer {
    if (at == end) return step > 0 ? size : Integer{-1};
    const Integer position = at < 0 ? at + size : Integer{at};
    const Integer low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    return std::clamp(position, low, high);
  };
  const Integer from = start == end ? (step > 0 ? size : size - 1) : place(start), to = place(stop);
  Shape shape = x->shape;
  shape[axis] = 0;
  for (Integer at = from; step > 0 ? at < to : at > to; at += step) ++shape[axis];
  const Shape strides = strides_of(x->shape);
  return view(x, shape, [&](const Shape& at) {
    return position(at, strides) + (static_cast<std::int64_t>(from) + at[axis] * (step - 1)) * strides[axis];
  });
}
Array select(const Array& x, std::int64_t given, std::int64_t index) {
  const int axis = axis_of("select", given, x.rank());
  const std::int64_t size = x->shape[static_cast<std::size_t>(axis)];
  if (index < -size || index >= size) throw Refused("select");
  const std::int64_t at = index < 0 ? index + size : index;
  return squeeze(slice(x, axis, at, at + 1, 1), axis);
}
Array flip(const Array& x, std::int64_t axis) {
  axis_of("slice", axis, x.rank());
  return slice(x, axis, slice_end, slice_end, -1);
}
Array split(const Array& x, std::int64_t axis, std::int64_t size, std::int64_t part) {
  constexpr std::int64_t most_parts = 65535;
  const std::int64_t whole = x->shape[static_cast<std::size_t>(axis_of("split", axis, x.rank()))];
  if (size < 1 || (whole - 1) / size >= most_parts) throw Refused("split");
  return slice(x, axis, part * size, (part + 1) * size, 1);
}
Array rot90(const Array& x, std::int64_t from, std::int64_t to) {
  if (axis_of("rot90", from, x.rank()) == axis_of("rot90", to, x.rank())) throw Refused("rot90");
  return transpose(flip(x, to), from, to);
}
Array atleast(const Array& x, int axes) {
  const Array one = x.rank() == 0 ? unsqueeze(x, 0) : x;
  const Array two = axes > 1 && one.rank() == 1 ? unsqueeze(one, 0) : one;
  return axes > 2 && two.rank() == 2 ? unsqueeze(two, 2) : two;
}
Array diag_embed(const Array& x) {
  if (x.rank() == 0 || x.rank() == 8) throw Refused("diag_embed");
  const std::int64_t n = x->shape.back();
  return where(eye(n, n, DType::boolean), unsqueeze(x, -2), make(x->dtype, {}));
}
Array with_slice(const Array& x, const Array& part, std::int64_t axis, std::int64_t start, std::int64_t stop,
                 std::int64_t step) {
  // Which element of the part each place of the axis gets.
  const std::int64_t size = x->shape[static_cast<std::size_t>(axis_of("slice", axis, x.rank()))];
  Array places = make(DType::i64, {size}), number = make(DType::i64, {size}), hit = make(DType::boolean, {size});
  for (std::int64_t i = 0; i < size; ++i) places.data->integers[static_cast<std::size_t>(i)] = i;
  const Array written = slice(places, 0, start, stop, step);
  if (written.count() == 0) return x;
  for (std::size_t i = 0; i < written->integers.size(); ++i) {
    const auto place = static_cast<std::size_t>(written->integers[i]);
    number.data->integers[place] = static_cast<std::int64_t>(i);
    hit.data->integers[place] = 1;
  }
  Shape column(x->shape.size(), 1);
  column[0] = size;
  const Array rows = gather(transpose(part, 0, axis), number);
  return transpose(where(reshape(hit, column), rows, transpose(x, 0, axis)), 0, axis);
}
Array concat(std::vector<Array> parts, std::int64_t given) {
  if (parts.empty()) throw Refused("concat");
  const auto axis = static_cast<std::size_t>(axis_of("concat", given, parts[0].rank()));
  Array common = parts[0];
  Shape shape = parts[0]->shape;
  shape[axis] = 0;
  for (const Array& part : parts) {
    if (part.rank() != parts[0].rank()) throw Refused("concat");
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (i != axis && part->shape[i] != shape[i]) throw Refused("concat");
    shape[axis] += part->shape[axis];
    const DType dtype = promote(common, part);
    common = make(dtype, Shape(parts[0]->shape.size(), 0));
  }
  for (Array& part : parts) part = cast(part, common->dtype);
  Array y = make(common->dtype, shape);
  const Shape strides = strides_of(shape);
  std::int64_t start = 0;
  for (const Array& part : parts) {
    each(part->shape, [&](std::size_t i, const Shape& at) {
      const auto to = static_cast<std::size_t>(position(at, strides) + start * strides[axis]);
      if (y.floating())
        y.data->reals[to] = part->reals[i];
      else
        y.data->integers[to] = part->integers[i];
    });
    const std::int64_t size = part->shape[axis];
    if (y.floating()) {
      y.data->operands.push_back(part);
      y.data->rules.push_back([axis, start, size](const Array&, const Array& g) {
        return slice(g, static_cast<std::int64_t>(axis), start, start + size, 1);
      });
    }
    start += size;
  }
  return y;
}
Array stack(const std::vector<Array>& parts, std::int64_t axis) {
  std::vector<Array> rows;
  for (const Array& part : parts) {
    if (part->shape != parts[0]->shape) throw Refused("stack");
    rows.push_back(unsqueeze(part, axis));
  }
  if (rows.empty()) throw Refused("stack");
  return concat(rows, axis);
}
Array pad(const Array& x, std::int64_t given, std::int64_t before, std::int64_t after, std::int64_t interior) {
  const auto axis = static_cast<std::size_t>(axis_of("pad", given, x.rank()));
  if (before < 0 || after < 0 || interior < 0) throw Refused("pad");
  const std::int64_t size = x->shape[axis];
  if (interior && size == 0) throw Refused("pad");
  Shape shape = x->shape;
  shape[axis] = before + after + size + std::max<std::int64_t>(size - 1, 0) * interior;
  const Shape strides = strides_of(x->shape);
  return view(x, shape, [&](const Shape& at) -> std::int64_t {
    const std::int64_t inside = at[axis] - before;
    if (inside < 0 || inside % (interior + 1) || inside / (interior + 1) >= size) return -1;
    Shape source = at;
    source[axis] = inside / (interior + 1);
    return position(source, strides);
  });
}

// ---- factories ------------------------------------------------------------------------------------------------------

Array full(const Shape& shape, const Array& value, DType dtype) {
  for (std::int64_t size : shape)
    if (size < 0) throw Refused("full");
  if (value->weak && !weft::is_floating(dtype) && dtype != DType::boolean) {  // a fraction is dropped
    if (value.floating() && !(std::fabs(value->reals[0]) < 0x1p63)) throw Refused("full");
    const std::int64_t whole = value.floating() ? static_cast<std::int64_t>(value->reals[0]) : value->integers[0];
    if (wrap(dtype, whole) != whole) throw Refused("full");
  }
  return expand(cast(value, dtype), shape);
}
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype) {
  if (step == 0) throw Refused("arange");
  std::vector<std::int64_t> numbers;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop; at += step) numbers.push_back(at);
  Array y = make(DType::i64, {static_cast<std::int64_t>(numbers.size())});
  y.data->integers = numbers;
  return cast(y, dtype);
}
Array arange(double start, double stop, double step, DType dtype) {
  Array y = make(DType::f64, {std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil((stop - start) / step)))});
  for (std::size_t i = 0; i < y->reals.size(); ++i) y.data->reals[i] = start + static_cast<double>(i) * step;
  return cast(y, dtype);
}
Array linspace(double start, double stop, std::int64_t count, DType dtype) {
  Array y = make(DType::f64, {count});
  const Wide distance = static_cast<Wide>(stop) - static_cast<Wide>(start);
  const Wide error = std::ldexp(std::fabs(static_cast<Wide>(start)) + std::fabs(static_cast<Wide>(stop)), -52);
  for (std::int64_t i = 0; i < count; ++i)  // both ends are exact
    y.data->reals[static_cast<std::size_t>(i)] =
        i == 0           ? start
        : i == count - 1 ? stop
                         : finish(DType::f64, static_cast<Wide>(start) + distance * i / (count - 1), true, error);
  return cast(y, dtype);
}
Array eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  Array y = make(DType::boolean, {rows, columns});
  for (std::int64_t i = 0; i < std::min(rows, columns); ++i)
    y.data->integers[static_cast<std::size_t>(i * columns + i)] = 1;
  return cast(y, dtype);
}

}  // namespace oracle
