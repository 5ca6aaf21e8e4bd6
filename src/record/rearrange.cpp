// Public functions that put elements elsewhere, by views and concatenations: what is named after what it does to a
// whole tensor, where shape_ops.cpp has the views themselves.
#include <algorithm>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"

namespace weft {
namespace {

Dim size_of(const Tensor& value, int axis) { return type_of(value).shape[axis]; }

// The smaller one, which is guarded where that is not known.
Dim smaller(Dim a, Dim b) { return a < b ? a : b; }

// Row + diagonal - column of each element of a matrix with these sizes, i64.
Tensor below_diagonal(Dim rows, Dim columns, std::int64_t diagonal, Device device, Loc loc) {
  const Shape shape = Shape::of(rows, columns);
  return positions(0, shape, device, loc) + diagonal - positions(1, shape, device, loc);
}
// The same of the last two axes.
Tensor below_diagonal(const char* name, const Tensor& value, std::int64_t diagonal, Loc loc) {
  const Type& type = type_of(value);
  const int rank = type.shape.rank();
  if (rank < 2) fail(name, loc, "needs two axes at least, it is ", to_string(type));
  check_extent(name, "the diagonal", diagonal, loc);
  return below_diagonal(type.shape[rank - 2], type.shape[rank - 1], diagonal, type.device, loc);
}

}  // namespace

Tensor movedim(At x, int from, int to) {
  Operation call("movedim", x.loc);
  const Tensor value = resolve(x, "movedim");
  const int rank = type_of(value).shape.rank();
  from = normalize_axis("movedim", from, rank, call.loc());
  to = normalize_axis("movedim", to, rank, call.loc());
  std::vector<int> axes;
  for (int i = 0; i < rank; ++i)
    if (i != from) axes.push_back(i);
  axes.insert(axes.begin() + to, from);
  return permute(value, axes);
}

Tensor narrow(At x, int axis, Dim start, Dim length) {
  Operation call("narrow", x.loc);
  const Tensor value = resolve(x, "narrow");
  const int normal = normalize_axis("narrow", axis, type_of(value).shape.rank(), call.loc());
  const Dim size = size_of(value, normal), first = start < Dim(0) ? start + size : start;
  if (length < Dim(0) || first < Dim(0) || first + length > size)
    fail("narrow", call.loc(), dims::to_string(length), " elements from ", dims::to_string(start), " of axis ", axis,
         " of ", to_string(type_of(value)));
  return slice(value, normal, first, first + length);
}

std::vector<Tensor> chunk(At x, std::int64_t count, int axis) {
  Operation call("chunk", x.loc);
  const Tensor value = resolve(x, "chunk");
  const int normal = normalize_axis("chunk", axis, type_of(value).shape.rank(), call.loc());
  if (count < 1) fail("chunk", call.loc(), "the number of parts is ", count);
  const auto total = static_cast<std::int64_t>(size_of(value, normal));
  return split(value, std::max<std::int64_t>((total + count - 1) / count, 1), normal);
}

std::vector<Tensor> unbind(At x, int axis) {
  Operation call("unbind", x.loc);
  const Tensor value = resolve(x, "unbind");
  const int normal = normalize_axis("unbind", axis, type_of(value).shape.rank(), call.loc());
  std::vector<Tensor> parts;
  if (size_of(value, normal) == Dim(0)) return parts;
  for (const Tensor& part : split(value, 1, normal)) parts.push_back(squeeze(part, normal));
  return parts;
}

Tensor roll(At x, Dim shift, int axis) {
  LooseComposite call("roll", x.loc);
  const Tensor value = resolve(x, "roll");
  const int normal = normalize_axis("roll", axis, type_of(value).shape.rank(), call.loc());
  check_extent("roll", "the shift", shift, call.loc());
  const Dim size = size_of(value, normal);
  if (size == Dim(0)) return value;
  const Dim behind = size - shift % size;
  return concat({slice(value, normal, behind), slice(value, normal, 0, behind)}, normal);
}
Tensor roll(At x, Dim shift) {
  LooseComposite call("roll", x.loc);
  const Tensor value = resolve(x, "roll");
  return reshape_to(roll(flatten(value), shift, 0), type_of(value).shape, call.loc());
}

Tensor tril(At x, std::int64_t diagonal) {
  LooseComposite call("tril", x.loc);
  const Tensor value = resolve(x, "tril");
  return where(below_diagonal("tril", value, diagonal, call.loc()) >= 0, value, zeros_like(value));
}
Tensor triu(At x, std::int64_t diagonal) {
  LooseComposite call("triu", x.loc);
  const Tensor value = resolve(x, "triu");
  return where(below_diagonal("triu", value, diagonal, call.loc()) <= 0, value, zeros_like(value));
}

// Element i of the diagonal is element i * (columns + 1) + start of the flattened matrix: the first column where rows
// of columns + 1 elements are made of it.
Tensor diagonal(At x, std::int64_t offset, int first, int second) {
  LooseComposite call("diagonal", x.loc);
  Tensor value = resolve(x, "diagonal");
  const int rank = type_of(value).shape.rank(), a = normalize_axis("diagonal", first, rank, call.loc()),
            b = normalize_axis("diagonal", second, rank, call.loc());
  if (a == b) fail("diagonal", call.loc(), "both axes are ", first);
  check_extent("diagonal", "the offset", offset, call.loc());
  std::vector<int> axes;
  for (int i = 0; i < rank; ++i)
    if (i != a && i != b) axes.push_back(i);
  axes.insert(axes.end(), {a, b});
  value = permute(value, axes);
  const Dim rows = size_of(value, rank - 2), columns = size_of(value, rank - 1),
            row = std::max<std::int64_t>(-offset, 0), column = std::max<std::int64_t>(offset, 0);
  Shape shape;
  for (int i = 0; i < rank - 2; ++i) shape.push_back(size_of(value, i));
  if (rows <= row || columns <= column) {
    shape.push_back(0);
    return reshape_to(slice(flatten(value, rank - 2), rank - 2, 0, 0), shape, call.loc());
  }
  const Dim count = smaller(rows - row, columns - column), start = row * columns + column,
            left = rows * columns - start, wanted = count * (columns + Dim(1));
  Tensor flat = slice(flatten(value, rank - 2), rank - 2, start);
  flat = left < wanted ? pad(flat, rank - 2, 0, wanted - left) : slice(flat, rank - 2, 0, wanted);
  shape.push_back(count), shape.push_back(columns + Dim(1));
  return select(reshape_to(flat, shape, call.loc()), rank - 1, 0);
}

Tensor diag(At x, std::int64_t offset) {
  LooseComposite call("diag", x.loc);
  const Tensor value = resolve(x, "diag");
  const int rank = type_of(value).shape.rank();
  if (rank == 2) return diagonal(value, offset);
  if (rank != 1) fail("diag", call.loc(), "needs a vector or a matrix, it is ", to_string(type_of(value)));
  check_extent("diag", "the offset", offset, call.loc());
  const Tensor rows = pad(value, 0, std::max<std::int64_t>(-offset, 0), std::max<std::int64_t>(offset, 0));
  const Tensor place = below_diagonal(size_of(rows, 0), size_of(rows, 0), offset, type_of(value).device, call.loc());
  return where(place == 0, unsqueeze(rows, 1), zeros({}, {type_of(value).dtype}));
}

Tensor trace(At x) {
  LooseComposite call("trace", x.loc);
  const Tensor value = resolve(x, "trace");
  if (type_of(value).shape.rank() != 2) fail("trace", call.loc(), "needs a matrix, it is ", to_string(type_of(value)));
  return sum(diagonal(value));
}

Tensor tile(At x, Sizes times) {
  LooseComposite call("tile", x.loc);
  Tensor value = resolve(x, "tile");
  const Shape& counts = times.shape();
  while (type_of(value).shape.rank() < counts.rank()) value = unsqueeze(value, 0);
  const int rank = type_of(value).shape.rank(), lead = rank - counts.rank();
  for (int i = 0; i < counts.rank(); ++i) {
    if (counts[i] < Dim(0)) fail("tile", call.loc(), "a count is negative: ", dims::to_string(counts[i]));
    if (counts[i] == Dim(1)) continue;
    const int axis = lead + i;
    Shape apart = type_of(value).shape, joined = apart;
    joined[axis] = joined[axis] * counts[i];
    Shape shape;
    for (int j = 0; j < rank; ++j) {
      if (j == axis) shape.push_back(counts[i]);
      shape.push_back(apart[j]);
    }
    if (rank == max_rank) {  // no room for one more axis
      std::vector<Tensor> parts(static_cast<std::size_t>(static_cast<std::int64_t>(counts[i])), value);
      value = parts.empty() ? slice(value, axis, 0, 0) : concat(parts, axis);
      continue;
    }
    value = reshape_to(expand(unsqueeze(value, axis), shape), joined, call.loc());
  }
  return value;
}
Tensor repeat(At x, Sizes times) {
  LooseComposite call("repeat", x.loc);
  const Tensor value = resolve(x, "repeat");
  if (times.shape().rank() < type_of(value).shape.rank())
    fail("repeat", call.loc(), counted(times.shape().rank(), "count", "counts"), " for ", to_string(type_of(value)));
  return tile(value, times);
}

Tensor repeat_interleave(At x, Dim times, int axis) {
  LooseComposite call("repeat_interleave", x.loc);
  const Tensor value = resolve(x, "repeat_interleave");
  const int rank = type_of(value).shape.rank(), normal = normalize_axis("repeat_interleave", axis, rank, call.loc());
  if (times < Dim(0)) fail("repeat_interleave", call.loc(), "the count is negative: ", dims::to_string(times));
  Shape apart, joined = type_of(value).shape;
  joined[normal] = joined[normal] * times;
  for (int i = 0; i < rank; ++i) {
    apart.push_back(type_of(value).shape[i]);
    if (i == normal) apart.push_back(times);
  }
  return reshape_to(expand(unsqueeze(value, normal + 1), apart), joined, call.loc());
}

std::vector<Tensor> meshgrid(std::span<const Tensor> axes, Indexing indexing, Loc loc) {
  LooseComposite call("meshgrid", loc);
  if (axes.empty()) fail("meshgrid", call.loc(), "of no tensors");
  check_choice("meshgrid", "Indexing", indexing, Indexing::xy, call.loc());
  const int rank = static_cast<int>(axes.size());
  if (rank > max_rank) fail("meshgrid", call.loc(), "more than ", max_rank, " axes");
  Shape shape;
  for (const Tensor& each : axes) {
    const Type& type = type_of(resolve(At(each, loc), "meshgrid"));
    if (type.shape.rank() > 1) fail("meshgrid", call.loc(), "needs vectors, one is ", to_string(type));
    shape.push_back(type.shape.element_count());
  }
  const bool swapped = indexing == Indexing::xy && rank > 1;
  if (swapped) std::swap(shape[0], shape[1]);
  std::vector<Tensor> grids;
  for (int i = 0; i < rank; ++i) {
    const int along = swapped && i < 2 ? 1 - i : i;
    Shape own;
    for (int j = 0; j < rank; ++j) own.push_back(j == along ? shape[along] : Dim(1));
    grids.push_back(expand(reshape_to(axes[static_cast<std::size_t>(i)], own, call.loc()), shape));
  }
  return grids;
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> axes, Indexing indexing, Loc loc) {
  return meshgrid(std::span<const Tensor>(axes.begin(), axes.size()), indexing, loc);
}

Tensor unfold(At x, int axis, std::int64_t size, std::int64_t step) {
  LooseComposite call("unfold", x.loc);
  const Tensor value = resolve(x, "unfold");
  const int rank = type_of(value).shape.rank(), normal = normalize_axis("unfold", axis, rank, call.loc());
  if (size < 1 || step < 1) fail("unfold", call.loc(), "windows of ", size, " at steps of ", step);
  if (size_of(value, normal) < Dim(size))
    fail("unfold", call.loc(), "a window of ", size, " is longer than axis ", axis, " of ", to_string(type_of(value)));
  const Tensor apart =
      record(Op::windows, {value}, Windows{size, step, 1, static_cast<std::uint8_t>(normal)}, {}, call.loc());
  return movedim(apart, normal, rank);  // a place in its window comes first
}

namespace {

// Of a constant the padding is 0, and `inside`, which broadcasts to the result, says where that is to be replaced.
Tensor pad_axis(const Tensor& value, int axis, Dim before, Dim after, Pads mode, const At& fill, Tensor& inside,
                Loc loc) {
  const Dim size = size_of(value, axis);
  if (before.same(Dim(0)) && after.same(Dim(0))) return value;
  if (mode == Pads::constant) {
    const Tensor padded = pad(value, axis, before, after);
    if (!fill.tensor && (fill.kind == DTypeKind::floating ? fill.number == 0 : !fill.symbolic && fill.integer == 0))
      return padded;
    Shape across;
    for (int i = 0; i < type_of(value).shape.rank(); ++i) across.push_back(i == axis ? size_of(padded, axis) : Dim(1));
    const Tensor position = positions(axis, across, type_of(value).device, loc) - before;
    const Tensor along = (position >= 0) & (position < At(size));
    inside = inside.defined() ? inside & along : along;
    return padded;
  }
  const Dim most = mode == Pads::reflect    ? size - Dim(1)
                   : mode == Pads::circular ? size
                   : size < Dim(1)          ? Dim(0)
                                            : Dim(count_limit);
  if (before > most || after > most)
    fail("pad", loc, "axis ", axis, " of ", to_string(type_of(value)), " is too short to be padded by ",
         dims::to_string(before), " and ", dims::to_string(after), " of its own elements");
  std::vector<Tensor> parts;
  const auto part = [&](Dim count, bool front) {
    if (count.same(Dim(0))) return;
    if (mode == Pads::circular) {
      parts.push_back(front ? slice(value, axis, size - count) : slice(value, axis, 0, count));
    } else if (mode == Pads::reflect) {
      parts.push_back(
          flip(front ? slice(value, axis, 1, count + Dim(1)) : slice(value, axis, size - Dim(1) - count, size - Dim(1)),
               axis));
    } else {
      Shape shape = type_of(value).shape;
      shape[axis] = count;
      parts.push_back(expand(front ? slice(value, axis, 0, 1) : slice(value, axis, size - Dim(1)), shape));
    }
  };
  part(before, true);
  parts.push_back(value);
  part(after, false);
  return concat(parts, axis);
}

// A negative width cuts off. Numbers, and elements of the other end, are put beside what is left of the axis; a mirror
// image and the border are those of the whole axis, as in PyTorch.
Tensor pad_or_cut(const Tensor& value, int axis, Dim before, Dim after, Pads mode, const At& fill, Tensor& inside,
                  Loc loc) {
  const bool cut_front = before < Dim(0), cut_back = after < Dim(0);
  if (!cut_front && !cut_back) return pad_axis(value, axis, before, after, mode, fill, inside, loc);
  const Dim front = cut_front ? -before : Dim(0), back = cut_back ? -after : Dim(0);
  const Dim low = cut_front ? Dim(0) : before, high = cut_back ? Dim(0) : after, size = size_of(value, axis);
  const bool cut_first = mode == Pads::constant || mode == Pads::circular;
  const Dim had = cut_first ? size : size + low + high;
  if (had < front + back)
    fail("pad", loc, "axis ", axis, " of ", to_string(type_of(value)), " is too short to be cut by ",
         dims::to_string(front), " and ", dims::to_string(back), " elements");
  const auto cut = [&](const Tensor& x) { return slice(x, axis, front, had - back); };
  return cut_first ? pad_axis(cut(value), axis, low, high, mode, fill, inside, loc)
                   : cut(pad_axis(value, axis, low, high, mode, fill, inside, loc));
}

}  // namespace

Tensor pad(At x, Sizes widths, Pads mode, At fill) {
  LooseComposite call("pad", x.loc);
  check_choice("pad", "Pads", mode, Pads::circular, call.loc());
  Tensor value = resolve(x, "pad");
  const Shape& pairs = widths.shape();
  const int rank = type_of(value).shape.rank();
  if (pairs.rank() % 2 != 0 || pairs.rank() / 2 > rank)
    fail("pad", call.loc(), pairs.rank(), " widths: needs two for each axis, the last one first, of ",
         to_string(type_of(value)));
  for (int i = 0; i < pairs.rank(); ++i) check_extent("pad", "a width", pairs[i], call.loc());
  Tensor inside;
  for (int i = 0; 2 * i < pairs.rank(); ++i)
    value = pad_or_cut(value, rank - 1 - i, pairs[2 * i], pairs[2 * i + 1], mode, fill, inside, call.loc());
  return inside.defined() ? where(inside, value, source_for("pad", fill, value, call.loc())) : value;
}

}  // namespace weft
