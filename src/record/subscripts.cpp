// Public functions that read and write by several subscripts at once: index tensors, masks and whole axes. In: a
// subscript for each of the first axes. Out: rows of the table in which the axes that are indexed come first, as one.
#include <vector>

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/indexing.hpp"

namespace weft {
namespace {

struct Subscripts {
  Tensor rows;             // the row of the table for each element of the indices, i64, in their common shape
  std::vector<int> order;  // the axes of x: those that are indexed, then the others
  Shape table;             // sizes of x in that order, the indexed ones as one row axis
  Shape apart;             // the same before they are one
  int first;               // where the shape of the indices is among the axes of a result
  Shape rest;              // the axes of x that are not indexed
};

// A whole axis is undefined; a mask becomes an index for each of its axes.
std::vector<Tensor> without_masks(const char* name, const Tensor& x, std::span<const Tensor> given, Loc loc) {
  const Shape& shape = type_of(x).shape;
  std::vector<Tensor> indices;
  for (const Tensor& each : given) {
    if (!each.defined()) {
      indices.emplace_back();
      continue;
    }
    const Tensor value = resolve(At(each, loc), name);
    if (type_of(value).dtype != DType::boolean) {
      indices.push_back(integers(name, At(value, loc), loc));
      continue;
    }
    const Shape& mask = type_of(value).shape;
    const int from = static_cast<int>(indices.size());
    bool fits = mask.rank() > 0 && from + mask.rank() <= shape.rank();
    for (int i = 0; fits && i < mask.rank(); ++i) fits = mask[i] == shape[from + i];
    if (!fits)
      fail(name, loc, "the mask ", to_string(type_of(value)), " does not fit the axes from ", from, " on of ",
           to_string(type_of(x)));
    const Tensor places = places_of_true(name, value, loc);
    for (int i = 0; i < mask.rank(); ++i) indices.push_back(select(places, 1, i));
  }
  return indices;
}

Subscripts subscripts_of(const char* name, const Tensor& x, std::span<const Tensor> given, Loc loc) {
  const Type& type = type_of(x);
  const std::vector<Tensor> indices = without_masks(name, x, given, loc);
  const int count = static_cast<int>(indices.size());
  std::vector<Tensor> places;
  std::vector<int> indexed, whole;
  for (int i = 0; i < std::max(count, type.shape.rank()); ++i) {
    const bool is_indexed = i < count && indices[static_cast<std::size_t>(i)].defined();
    if (is_indexed) places.push_back(indices[static_cast<std::size_t>(i)]);
    (is_indexed ? indexed : whole).push_back(i);
  }
  if (indexed.empty() || count > type.shape.rank())
    fail(name, loc, counted(count, "index", "indices"), " for ", to_string(type));
  Subscripts result;
  const Shape lead = broadcast(name, places, loc);
  if (lead.rank() + static_cast<int>(whole.size()) > max_rank) fail(name, loc, "more than ", max_rank, " axes");
  const bool adjacent = indexed.back() - indexed.front() + 1 == static_cast<int>(indexed.size());
  result.first = adjacent ? indexed.front() : 0;
  Dim rows = 1;
  for (std::size_t i = 0; i < indexed.size(); ++i) {
    const Dim size = type.shape[indexed[i]];
    const Tensor place = from_end(places[i], size, name, loc, x);
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
Tensor table_of(const Tensor& x, const Subscripts& by, Loc loc) {
  return reshape_to(permuted(x, by.order), by.table, loc);
}

// The axes of a result in the order of the rows that are taken: those of the indices first.
std::vector<int> rows_first(const Subscripts& by) {
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

}  // namespace

Tensor index(At x, std::span<const Tensor> indices) {
  LooseComposite call("index", x.loc);
  const Tensor value = resolve(x, "index");
  const Subscripts by = subscripts_of("index", value, indices, call.loc());
  const Tensor taken = record(Op::gather, {table_of(value, by, call.loc()), by.rows}, {}, {}, call.loc());
  return permuted(taken, inverse(rows_first(by)));
}
Tensor index(At x, std::initializer_list<Tensor> indices) {
  return index(x, std::span<const Tensor>(indices.begin(), indices.size()));
}

Tensor index_put(At x, std::span<const Tensor> indices, At values, bool accumulate) {
  LooseComposite call("index_put", x.loc);
  const Tensor value = resolve(x, "index_put");
  const Subscripts by = subscripts_of("index_put", value, indices, call.loc());
  const std::vector<int> axes = rows_first(by);
  const Shape lead = type_of(by.rows).shape, taken = joined(lead, by.rest, 0);
  Shape wanted = taken;
  for (int i = 0; i < taken.rank(); ++i) wanted[axes[static_cast<std::size_t>(i)]] = taken[i];
  const Tensor updates = permuted(values_like("index_put", values, value, wanted, call.loc()), axes);
  const Tensor each = reshape_to(updates, joined(Shape::of(lead.element_count()), by.rest, 0), call.loc());
  const Tensor table = update_rows(table_of(value, by, call.loc()), 0, flatten(by.rows), each, accumulate, call.loc());
  return permuted(reshape_to(table, by.apart, call.loc()), inverse(by.order));
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
