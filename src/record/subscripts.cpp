// Public functions that read and write by several subscripts. In: a subscript for each axis, new axes between them, an
// ellipsis for the axes that are left. Numbers, slices and new axes become a view; index tensors and masks then become
// rows of a table in which the axes that are indexed come first, as one. A write goes back through the view.
#include <vector>

#include "base/fail.hpp"
#include "record/autocast.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/indexing.hpp"
#include "weft/shapes.hpp"

namespace weft {
namespace {

using Kind = Subscript::Kind;

// An index for each axis of the mask, which takes the axes of x from `axis` on.
void append_places(std::vector<Subscript>& subscripts, const char* name, const Tensor& mask, const Type& x, int axis,
                   Loc loc) {
  const Shape& shape = type_of(mask).shape;
  bool fits = shape.rank() > 0 && axis + shape.rank() <= x.shape.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) fits = shape[i] == x.shape[axis + i];
  if (!fits)
    fail(name, loc, "the mask ", to_string(type_of(mask)), " does not fit the axes from ", axis, " on of ",
         to_string(x));
  const Tensor places = places_of_true(name, mask, loc);
  for (int i = 0; i < shape.rank(); ++i) subscripts.push_back(select(places, 1, i));
}

// A subscript for each axis of x, and new axes: without ellipsis and masks.
std::vector<Subscript> one_for_each_axis(const char* name, const Tensor& x, std::span<const Subscript> given, Loc loc) {
  const Type& type = type_of(x);
  std::vector<Tensor> tensors;
  int taken = 0, ellipses = 0;
  for (const Subscript& each : given) {
    tensors.push_back(each.kind() == Kind::tensor ? resolve(At(each.tensor(), loc), name) : Tensor());
    const bool mask = tensors.back().defined() && type_of(tensors.back()).dtype == DType::boolean;
    taken += mask ? type_of(tensors.back()).shape.rank() : each.kind() != Kind::new_axis && each.kind() != Kind::rest;
    ellipses += each.kind() == Kind::rest;
  }
  if (ellipses > 1) fail(name, loc, "more than one ellipsis");
  const int left = std::max(0, type.shape.rank() - taken);
  std::vector<Subscript> result;
  int axis = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t before = result.size();
    if (given[i].kind() == Kind::rest)
      result.resize(before + static_cast<std::size_t>(left));
    else if (!tensors[i].defined())
      result.push_back(given[i]);
    else if (type_of(tensors[i]).dtype == DType::boolean)
      append_places(result, name, tensors[i], type, axis, loc);
    else
      result.push_back(integers(name, At(tensors[i], loc), loc));
    if (given[i].kind() != Kind::new_axis) axis += static_cast<int>(result.size() - before);
  }
  if (axis > type.shape.rank()) fail(name, loc, counted(axis, "subscript", "subscripts"), " for ", to_string(type));
  result.resize(result.size() + static_cast<std::size_t>(type.shape.rank() - axis));
  return result;
}

// One of the views that x becomes before index tensors are read.
struct ViewStep {
  Subscript by;
  int axis;
};
Tensor viewed(const Tensor& x, const ViewStep& step) {
  if (step.by.kind() == Kind::new_axis) return unsqueeze(x, step.axis);
  if (step.by.kind() == Kind::element) return select(x, step.axis, step.by.range().start);
  return slice(x, step.axis, step.by.range().start, step.by.range().stop, step.by.range().step);
}
// x with this part in the place of its view.
Tensor with_viewed(const char* name, const Tensor& x, const ViewStep& step, const Tensor& part, Loc loc) {
  const Type type = type_of(x);
  if (step.by.kind() == Kind::new_axis) return reshape_to(part, type.shape, loc);
  if (step.by.kind() == Kind::element) return select_scatter(x, part, step.axis, step.by.range().start);
  const auto& [from, to, by] = step.by.range();
  const SliceRange range = slice_range(name, type.shape[step.axis], from, to, by, loc);
  if (range.count.same(Dim(0))) return x;
  const Tensor start = coerce(dim_value(range.start, loc), DType::i64, false, {}, type.device, loc);
  if (range.step == 1)
    return record(Op::update_slice, {x, part, start}, Along{static_cast<std::uint8_t>(step.axis)}, {}, loc);
  const Tensor rows = positions(0, Shape::of(range.count), type.device, loc) * range.step + start;
  return update_rows(x, step.axis, rows, part, false, loc);
}

// What x becomes: views, and then an index tensor for each axis of the last one, undefined where the axis is whole.
struct IndexedView {
  std::vector<ViewStep> steps;
  std::vector<Tensor> indices;
  bool has_indices = false;
};
// With `elements_as_indices` numbers beside index tensors are index tensors, too: then a write is one.
IndexedView view_of(const char* name, const Tensor& x, std::span<const Subscript> given, bool elements_as_indices,
                    Loc loc) {
  const std::vector<Subscript> subscripts = one_for_each_axis(name, x, given, loc);
  IndexedView result;
  for (const Subscript& each : subscripts) result.has_indices |= each.kind() == Kind::tensor;
  int axis = 0;  // of x
  for (const Subscript& each : subscripts) {
    const int own = static_cast<int>(result.indices.size());  // of the view
    if (each.kind() == Kind::element) {
      const Dim place = place_on_axis(name, each.range().start, type_of(x), axis, loc);
      if (!elements_as_indices || !result.has_indices)
        result.steps.push_back({place, own});
      else
        result.indices.push_back(coerce(dim_value(place, loc), DType::i64, false, {}, type_of(x).device, loc));
    } else {
      const auto& [start, stop, step] = each.range();
      const bool whole = start.same(slice_end) && stop.same(slice_end) && step.same(Dim(1));
      if (each.kind() == Kind::new_axis || (each.kind() == Kind::range && !whole)) result.steps.push_back({each, own});
      result.indices.push_back(each.tensor());
    }
    axis += each.kind() != Kind::new_axis;
  }
  return result;
}

// The rows of a table that the index tensors name.
struct IndexedRows {
  Tensor rows;             // the row of the table for each element of the indices, i64, in their common shape
  std::vector<int> order;  // the axes of x: those that are indexed, then the others
  Shape table;             // sizes of x in that order, the indexed ones as one row axis
  Shape apart;             // the same before they are one
  int first;               // where the shape of the indices is among the axes of a result
  Shape rest;              // the axes of x that are not indexed
};

// Index tensors, at least one, for the axes of x.
IndexedRows rows_of(const char* name, const Tensor& x, std::span<const Tensor> indices, Loc loc) {
  const Type& type = type_of(x);
  std::vector<Tensor> places;
  std::vector<int> indexed, whole;
  int first = -1, last = -1;  // whole axes before the first and the last index that has axes
  for (int i = 0; i < type.shape.rank(); ++i) {
    const Tensor& index = indices[static_cast<std::size_t>(i)];
    if (!index.defined()) {
      whole.push_back(i);
      continue;
    }
    indexed.push_back(i);
    places.push_back(index);
    if (type_of(index).shape.rank() == 0) continue;
    last = static_cast<int>(whole.size());
    if (first < 0) first = last;
  }
  IndexedRows result;
  const Shape lead = broadcast(name, places, loc);
  if (lead.rank() + static_cast<int>(whole.size()) > max_rank) fail(name, loc, "more than ", max_rank, " axes");
  result.first = first == last ? std::max(first, 0) : 0;
  Dim rows = 1;
  for (std::size_t i = 0; i < indexed.size(); ++i) {
    const Dim size = type.shape[indexed[i]];
    const Tensor place = from_end(places[i], size, name, loc, x, indexed[i]);
    result.rows = i == 0 ? place : result.rows * dim_value(size, loc) + place;
    result.apart.push_back(size);
    rows = rows * size;
  }
  result.rows = coerce(result.rows, DType::i64, false, lead, type.device, loc);
  for (const int axis : whole) result.rest.push_back(type.shape[axis]);
  result.apart = joined(result.apart, result.rest, 0);
  result.table = joined(Shape::of(rows), result.rest, 0);
  result.order = indexed;
  result.order.insert(result.order.end(), whole.begin(), whole.end());
  return result;
}

bool in_place(const std::vector<int>& order) {
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<int>(i)) return false;
  return true;
}
Tensor permuted(const Tensor& x, const std::vector<int>& order) { return in_place(order) ? x : permute(x, order); }
Tensor table_of(const Tensor& x, const IndexedRows& by, Loc loc) {
  return reshape_to(permuted(x, by.order), by.table, loc);
}

// The axes of a result in the order of the rows that are taken: those of the indices first.
std::vector<int> rows_first(const IndexedRows& by) {
  const int lead = type_of(by.rows).shape.rank(), rest = by.rest.rank();
  std::vector<int> axes;
  for (int i = 0; i < lead; ++i) axes.push_back(by.first + i);
  for (int i = 0; i < rest; ++i) axes.push_back(i < by.first ? i : i + lead);
  return axes;
}
std::vector<int> inverse(const std::vector<int>& order) {
  std::vector<int> axes(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) axes[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return axes;
}

Tensor read_rows(const char* name, const Tensor& x, std::span<const Tensor> indices, Loc loc) {
  const IndexedRows by = rows_of(name, x, indices, loc);
  const Tensor taken = record(Op::gather, {table_of(x, by, loc), by.rows}, {}, {}, loc);
  return permuted(taken, inverse(rows_first(by)));
}

// What is written, and how.
struct Write {
  const At& values;
  bool adds;
};
Tensor write_rows(const char* name, const Tensor& x, std::span<const Tensor> indices, const Write& write, Loc loc) {
  const IndexedRows by = rows_of(name, x, indices, loc);
  const std::vector<int> axes = rows_first(by);
  const Shape lead = type_of(by.rows).shape, taken = joined(lead, by.rest, 0);
  Shape wanted = taken;
  for (int i = 0; i < taken.rank(); ++i) wanted[axes[static_cast<std::size_t>(i)]] = taken[i];
  const Tensor updates = permuted(values_like(name, write.values, x, wanted, loc), axes);
  const Tensor each = reshape_to(updates, joined(Shape::of(lead.element_count()), by.rest, 0), loc);
  const Tensor table = update_rows(table_of(x, by, loc), 0, flatten(by.rows), each, write.adds, loc);
  return permuted(reshape_to(table, by.apart, loc), inverse(by.order));
}
Tensor write_whole(const char* name, const Tensor& x, const Write& write, Loc loc) {
  const Tensor values = values_like(name, write.values, x, type_of(x).shape, loc);
  if (!write.adds) return values;
  return type_of(x).dtype == DType::boolean ? x | values : x + values;
}
// Through the views from step `i` on.
Tensor written(const char* name, const Tensor& x, const IndexedView& by, std::size_t i, const Write& write, Loc loc) {
  if (i < by.steps.size())
    return with_viewed(name, x, by.steps[i], written(name, viewed(x, by.steps[i]), by, i + 1, write, loc), loc);
  return by.has_indices ? write_rows(name, x, by.indices, write, loc) : write_whole(name, x, write, loc);
}

}  // namespace

Tensor index(At x, std::span<const Subscript> subscripts) {
  LooseComposite call("index", x.loc);
  Tensor value = resolve(x, "index");
  const IndexedView by = view_of("index", value, subscripts, false, call.loc());
  for (const ViewStep& step : by.steps) value = viewed(value, step);
  return by.has_indices ? read_rows("index", value, by.indices, call.loc()) : value;
}
Tensor index(At x, std::initializer_list<Subscript> subscripts) {
  return index(x, std::span<const Subscript>(subscripts.begin(), subscripts.size()));
}

Tensor index_put(At x, std::span<const Subscript> subscripts, At values, bool accumulate) {
  LooseComposite call("index_put", x.loc);
  const Tensor value = autocast_widest("index_put", resolve(x, "index_put"), values);
  const IndexedView by = view_of("index_put", value, subscripts, true, call.loc());
  return written("index_put", value, by, 0, {values, accumulate}, call.loc());
}
Tensor index_put(At x, std::span<const Tensor> indices, At values, bool accumulate) {
  if (indices.empty()) fail("index_put", x.loc, "0 indices for ", to_string(type_of(resolve(x, "index_put"))));
  return index_put(x, std::vector<Subscript>(indices.begin(), indices.end()), values, accumulate);
}
Tensor index_put(At x, std::initializer_list<Tensor> indices, At values, bool accumulate) {
  return index_put(x, std::span<const Tensor>(indices.begin(), indices.size()), values, accumulate);
}

Tensor put(At x, At index, At source, bool accumulate) {
  LooseComposite call("put", x.loc);
  const Tensor value = resolve(x, "put"), given = integers("put", index, call.loc());
  const Type type = type_of(value);
  const Dim count = type_of(given).shape.element_count();
  const Tensor updates = source_for("put", source, value, call.loc());
  if (!(type_of(updates).shape.element_count() == count))
    fail("put", call.loc(), "the index is ", to_string(type_of(given)), ", the source ", to_string(type_of(updates)),
         ": needs as many elements of each");
  const Tensor places = from_end(flatten(given), type.shape.element_count(), "put", call.loc(), value);
  const Tensor result = update_rows(flatten(value), 0, places, flatten(updates), accumulate, call.loc());
  return reshape_to(result, type.shape, call.loc());
}

}  // namespace weft
