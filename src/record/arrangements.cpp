// Public functions of weft/shapes.hpp: diagonals and slices that are written, combinations of elements, positions in
// matrices. By views, concatenations and masks, as rearrange.cpp; what is a list of positions is computed from numbers.
#include "weft/shapes.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"

namespace weft {
namespace {

Dim size_of(const Tensor& value, int axis) { return type_of(value).shape[axis]; }

std::vector<Tensor> resolved(const char* name, std::span<const Tensor> given, Loc loc) {
  std::vector<Tensor> values;
  for (const Tensor& each : given) values.push_back(resolve(At(each, loc), name));
  return values;
}

// What is where(on, value, other) along a diagonal of the last two axes of these sizes: whether an element is on it,
// and the values [..., n] beside it, [..., rows, 1].
struct Diagonal {
  Tensor on, values;
};
Diagonal along_diagonal(const Tensor& values, Dim rows, Dim columns, std::int64_t offset, Loc loc) {
  const int last = type_of(values).shape.rank() - 1;
  const Dim before = std::max<std::int64_t>(-offset, 0), after = rows - before - size_of(values, last);
  const Shape shape = Shape::of(rows, columns);
  const Device device = type_of(values).device;
  const Tensor on = positions(0, shape, device, loc) + offset == positions(1, shape, device, loc);
  return {on, unsqueeze(pad(values, last, before, after), -1)};
}

// The last two axes of the value, as these axes of the result.
Tensor with_last_at(const Tensor& value, int first, int second) {
  const int rank = type_of(value).shape.rank();
  std::vector<int> axes;
  for (int i = 0, next = 0; i < rank; ++i) axes.push_back(i == first ? rank - 2 : i == second ? rank - 1 : next++);
  return permute(value, axes);
}

// A floating source is not cut to integers.
Tensor source_like(const char* name, const At& source, const Tensor& x, const Shape& shape, Loc loc) {
  const Tensor given = source_for(name, source, x, loc);
  if (!(type_of(given).shape == shape))
    fail(name, loc, "the source is ", to_string(type_of(given)), ", not ",
         to_string(Type{type_of(x).dtype, false, {}, shape}));
  return given;
}

}  // namespace

Tensor rot90(At x, std::int64_t k, Axes axes) {
  LooseComposite call("rot90", x.loc);
  const Tensor value = resolve(x, "rot90");
  const int rank = type_of(value).shape.rank();
  if (axes.count() != 2) fail("rot90", call.loc(), "turns two axes, it is given ", axes.count());
  const int from = normalize_axis("rot90", axes[0], rank, call.loc()),
            to = normalize_axis("rot90", axes[1], rank, call.loc());
  if (from == to) fail("rot90", call.loc(), "both axes are ", axes[0]);
  switch (((k % 4) + 4) % 4) {
    case 1: return transpose(flip(value, to), from, to);
    case 2: return flip(flip(value, from), to);
    case 3: return transpose(flip(value, from), from, to);
    default: return value;
  }
}

Tensor diag_embed(At x, std::int64_t offset, int first, int second) {
  LooseComposite call("diag_embed", x.loc);
  const Tensor value = resolve(x, "diag_embed");
  const int rank = type_of(value).shape.rank() + 1;
  if (rank == 1 || rank > max_rank)
    fail("diag_embed", call.loc(), "needs 1 to ", max_rank - 1, " axes, it is ", to_string(type_of(value)));
  const int a = normalize_axis("diag_embed", first, rank, call.loc()),
            b = normalize_axis("diag_embed", second, rank, call.loc());
  if (a == b) fail("diag_embed", call.loc(), "both axes are ", first);
  check_extent("diag_embed", "the offset", offset, call.loc());
  const Dim size = size_of(value, rank - 2) + Dim(offset < 0 ? -offset : offset);
  const Diagonal diagonal = along_diagonal(value, size, size, offset, call.loc());
  return with_last_at(where(diagonal.on, diagonal.values, zeros({}, {type_of(value).dtype})), a, b);
}

Tensor block_diag(std::span<const Tensor> parts, Loc loc) {
  LooseComposite call("block_diag", loc);
  if (parts.empty()) fail("block_diag", call.loc(), "of no tensors");
  std::vector<Tensor> matrices = resolved("block_diag", parts, call.loc());
  Dim columns = 0;
  for (Tensor& each : matrices) {
    if (type_of(each).shape.rank() > 2)
      fail("block_diag", call.loc(), "needs matrices, one is ", to_string(type_of(each)));
    each = atleast_2d(each);
    columns = columns + size_of(each, 1);
  }
  Dim before = 0;
  for (Tensor& each : matrices) {
    const Dim own = size_of(each, 1), start = before;
    before = before + own;
    each = pad(each, 1, start, columns - before);
  }
  return concat(matrices, 0);
}
Tensor block_diag(std::initializer_list<Tensor> parts, Loc loc) {
  return block_diag(std::span<const Tensor>(parts.begin(), parts.size()), loc);
}

Tensor cartesian_prod(std::span<const Tensor> vectors, Loc loc) {
  LooseComposite call("cartesian_prod", loc);
  if (vectors.empty()) fail("cartesian_prod", call.loc(), "of no tensors");
  const std::vector<Tensor> values = resolved("cartesian_prod", vectors, call.loc());
  for (const Tensor& each : values)
    if (type_of(each).shape.rank() != 1)
      fail("cartesian_prod", call.loc(), "needs vectors, one is ", to_string(type_of(each)));
  if (values.size() == 1) return values[0];
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(values, Indexing::ij, call.loc())) columns.push_back(flatten(grid));
  return stack(columns, 1);
}
Tensor cartesian_prod(std::initializer_list<Tensor> vectors, Loc loc) {
  return cartesian_prod(std::span<const Tensor>(vectors.begin(), vectors.size()), loc);
}

Tensor combinations(At x, std::int64_t r, bool with_replacement) {
  LooseComposite call("combinations", x.loc);
  const Tensor value = resolve(x, "combinations");
  if (type_of(value).shape.rank() != 1)
    fail("combinations", call.loc(), "needs a vector, it is ", to_string(type_of(value)));
  if (r < 0) fail("combinations", call.loc(), "of ", r, " elements");
  if (r == 0) return slice(value, 0, 0, 0);
  const auto size = static_cast<std::int64_t>(size_of(value, 0));
  // There are (n choose r) of them, of n = size + r - 1 with replacement: the product of (n - i + 1) / i up to r, of
  // which each beginning is a number of choices too, and ascends up to half of n.
  const bool any = size > 0 && (with_replacement || r <= size);
  const Dim of = Dim(size) + (with_replacement ? Dim(r) - Dim(1) : Dim(0));
  const Dim least = any ? std::min(r, (of - Dim(r)).constant()) : 0;
  constexpr std::int64_t most = std::int64_t{1} << 28;
  Dim choices = 1;
  for (std::int64_t i = 1; Dim(i) <= least && choices * Dim(r) <= Dim(most); ++i)
    choices = choices * (of - Dim(i - 1)) / Dim(i);
  if (any && choices * Dim(r) > Dim(most))
    fail("combinations", call.loc(), "of ", r, " of ", size, " elements are too many");
  std::vector<std::int64_t> places;
  places.reserve(static_cast<std::size_t>(any ? (choices * Dim(r)).constant() : 0));
  std::vector<std::int64_t> next(static_cast<std::size_t>(any ? r : 0));
  for (std::size_t i = 0; i < next.size(); ++i) next[i] = with_replacement ? 0 : static_cast<std::int64_t>(i);
  while (!next.empty()) {
    places.insert(places.end(), next.begin(), next.end());
    // The last position that can move on, and those after it as far down as they can be.
    std::size_t i = next.size();
    const auto most = [&](std::size_t at) {
      return with_replacement ? size - 1 : size - static_cast<std::int64_t>(next.size() - at);
    };
    while (i > 0 && next[i - 1] == most(i - 1)) --i;
    if (i == 0) break;
    ++next[i - 1];
    for (; i < next.size(); ++i) next[i] = next[i - 1] + (with_replacement ? 0 : 1);
  }
  const auto count = static_cast<std::int64_t>(places.size()) / r;
  const Tensor index = to(constant(places, {count, r}, call.loc()), type_of(value).device, call.loc());
  return record(Op::gather, {value, index}, {}, {}, call.loc());
}

std::vector<Tensor> tensor_split(At x, std::int64_t sections, int axis) {
  LooseComposite call("tensor_split", x.loc);
  const Tensor value = resolve(x, "tensor_split");
  const int normal = normalize_axis("tensor_split", axis, type_of(value).shape.rank(), call.loc());
  if (sections < 1 || sections > UINT16_MAX) fail("tensor_split", call.loc(), "the number of parts is ", sections);
  const auto size = static_cast<std::int64_t>(size_of(value, normal));
  std::vector<Tensor> parts;
  for (std::int64_t i = 0, at = 0; i < sections; ++i) {
    const std::int64_t own = size / sections + (i < size % sections);
    parts.push_back(slice(value, normal, at, at + own));
    at += own;
  }
  return parts;
}
std::vector<Tensor> tensor_split(At x, std::span<const std::int64_t> indices, int axis) {
  LooseComposite call("tensor_split", x.loc);
  const Tensor value = resolve(x, "tensor_split");
  const int normal = normalize_axis("tensor_split", axis, type_of(value).shape.rank(), call.loc());
  std::vector<Tensor> parts;
  Dim start = 0;
  for (const std::int64_t index : indices) {
    parts.push_back(slice(value, normal, start, index));
    start = index;
  }
  parts.push_back(slice(value, normal, start));
  return parts;
}
std::vector<Tensor> tensor_split(At x, std::initializer_list<std::int64_t> indices, int axis) {
  return tensor_split(x, std::span<const std::int64_t>(indices.begin(), indices.size()), axis);
}

Tensor atleast_1d(At x) {
  Operation call("atleast_1d", x.loc);
  const Tensor value = resolve(x, "atleast_1d");
  return type_of(value).shape.rank() == 0 ? unsqueeze(value, 0) : value;
}
Tensor atleast_2d(At x) {
  Operation call("atleast_2d", x.loc);
  const Tensor value = atleast_1d(x);
  return type_of(value).shape.rank() == 1 ? unsqueeze(value, 0) : value;
}
Tensor atleast_3d(At x) {
  Operation call("atleast_3d", x.loc);
  const Tensor value = atleast_2d(x);
  return type_of(value).shape.rank() == 2 ? unsqueeze(value, 2) : value;
}

std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Loc loc) {
  LooseComposite call("broadcast_tensors", loc);
  std::vector<Tensor> values = resolved("broadcast_tensors", tensors, call.loc());
  if (values.empty()) return values;
  const Shape shape = broadcast("broadcast_tensors", values, call.loc());
  for (Tensor& each : values) each = expand(each, shape);
  return values;
}
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, Loc loc) {
  return broadcast_tensors(std::span<const Tensor>(tensors.begin(), tensors.size()), loc);
}

Tensor select_scatter(At x, At source, int axis, Dim index) {
  LooseComposite call("select_scatter", x.loc);
  const Tensor value = resolve(x, "select_scatter");
  const Type type = type_of(value);
  const int normal = normalize_axis("select_scatter", axis, type.shape.rank(), call.loc());
  const Dim place = place_on_axis("select_scatter", index, type, normal, call.loc());
  Shape shape;
  for (int i = 0; i < type.shape.rank(); ++i)
    if (i != normal) shape.push_back(type.shape[i]);
  const Tensor part = unsqueeze(source_like("select_scatter", source, value, shape, call.loc()), normal);
  const Tensor start = coerce(dim_value(place, call.loc()), DType::i64, false, {}, type.device, call.loc());
  return record(Op::update_slice, {value, part, start}, Along{static_cast<std::uint8_t>(normal)}, {}, call.loc());
}

Tensor diagonal_scatter(At x, At source, std::int64_t offset, int first, int second) {
  LooseComposite call("diagonal_scatter", x.loc);
  const Tensor value = resolve(x, "diagonal_scatter");
  const Shape shape = type_of(diagonal(value, offset, first, second)).shape;  // which checks the axes
  const int rank = type_of(value).shape.rank(), a = normalize_axis("diagonal_scatter", first, rank, call.loc()),
            b = normalize_axis("diagonal_scatter", second, rank, call.loc());
  const Tensor part = source_like("diagonal_scatter", source, value, shape, call.loc());
  if (shape[rank - 2] == Dim(0)) return value;
  std::vector<int> axes;
  for (int i = 0; i < rank; ++i)
    if (i != a && i != b) axes.push_back(i);
  axes.insert(axes.end(), {a, b});
  const Diagonal diagonal = along_diagonal(part, size_of(value, a), size_of(value, b), offset, call.loc());
  return with_last_at(where(diagonal.on, diagonal.values, permute(value, axes)), a, b);
}

namespace {

// How many elements of a matrix are on and below the diagonal.
std::int64_t count_below(std::int64_t rows, std::int64_t columns, std::int64_t offset) {
  const std::int64_t first = std::clamp<std::int64_t>(-offset, 0, rows);              // row that has one
  const std::int64_t full = std::clamp<std::int64_t>(columns - offset, first, rows);  // row from which all count
  return (full - first) * (first + full + 2 * offset + 1) / 2 + (rows - full) * columns;
}

// Elements of each row in turn. Element p is in the row before whose end it is.
Tensor triangle(const char* name, Dim height, Dim width, std::int64_t offset, bool upper, const RangeOptions& options,
                Loc loc) {
  const auto rows = static_cast<std::int64_t>(height), columns = static_cast<std::int64_t>(width);
  check_extent(name, "the offset", offset, loc);
  if (rows < 0 || columns < 0) fail(name, loc, "of a matrix of ", rows, " x ", columns);
  check_count(name, Type{DType::i64, false, {}, Shape::of(2, rows, columns)}, loc);
  offset = std::clamp(offset, -rows, columns);
  const std::int64_t below = count_below(rows, columns, upper ? offset - 1 : offset);
  const std::int64_t count = upper ? rows * columns - below : below;
  if (count == 0) return zeros({2, 0}, {options.dtype, options.device});
  const RangeOptions whole{DType::i64, options.device};
  const Tensor edge = arange(rows, whole, loc) + offset;  // the diagonal's column
  const Tensor first = upper ? clamp(edge, 0, columns) : constant_like(0, type_of(edge), loc);
  const Tensor end =
      upper ? constant_like(static_cast<double>(columns), type_of(edge), loc) : clamp(edge + 1, 0, columns);
  const Tensor ends = cumsum(end - first, 0), place = arange(count, whole, loc);
  const Tensor row = searchsorted(ends, place, true);
  const auto of_row = [&](const Tensor& table) { return record(Op::gather, {table, row}, {}, {}, loc); };
  return cast(stack({row, place - of_row(ends - end)}), options.dtype);
}

}  // namespace

Tensor tril_indices(Dim rows, Dim columns, std::int64_t offset, RangeOptions options, Loc loc) {
  LooseComposite call("tril_indices", loc);
  return triangle("tril_indices", rows, columns, offset, false, options, call.loc());
}
Tensor triu_indices(Dim rows, Dim columns, std::int64_t offset, RangeOptions options, Loc loc) {
  LooseComposite call("triu_indices", loc);
  return triangle("triu_indices", rows, columns, offset, true, options, call.loc());
}

std::vector<Tensor> unravel_index(At index, Sizes sizes) {
  LooseComposite call("unravel_index", index.loc);
  const Shape& shape = sizes.shape();
  const Tensor given = integers("unravel_index", index, call.loc());
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] < Dim(0)) fail("unravel_index", call.loc(), "a size is negative: ", dims::to_string(shape[i]));
  Tensor rest = from_end(given, shape.element_count(), "unravel_index", call.loc(), given);
  std::vector<Tensor> places(static_cast<std::size_t>(shape.rank()));
  for (int i = shape.rank(); i-- > 0;) {
    const Tensor size = dim_value(shape[i], call.loc());
    places[static_cast<std::size_t>(i)] = i == 0 ? rest : rest % size;
    if (i > 0) rest = floor_divide(rest, size);
  }
  return places;
}

}  // namespace weft
