// Public functions that write at positions: rows of a table by a vector of indices, or elements of the flattened table
// by positions. By several index tensors: subscripts.cpp.
#include <vector>

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/autocast.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/indexing.hpp"

namespace weft {
namespace {

// As many axes of size 1 after the first as the other has.
Tensor along_rows(const Tensor& rows, const Shape& shape, Loc loc) {
  Shape column = Shape::of(shape[0]);
  for (int i = 1; i < shape.rank(); ++i) column.push_back(1);
  return reshape_to(rows, column, loc);
}

// For each of `rows` the number of the last place of `index`, a vector, that names it; negative: none does.
Tensor last_writer(const Tensor& index, Dim rows, Loc loc) {
  const Type& type = type_of(index);
  return meeting(Op::scatter_amax, index, positions(0, type.shape, type.device, loc), Shape::of(rows), loc);
}

// What scatter and scatter_reduce are given: rows of x and an update for each index of a vector. Where the index of
// the call is no repeated vector, x is flat and its rows are elements.
struct Updates {
  Tensor x, index, source;
  Shape shape;  // of what was given as x
  int axis;     // in it, of the rows; negative: x is flat
  Tensor restored(const Tensor& result, Loc loc) const {
    return axis < 0 ? reshape_to(result, shape, loc) : movedim(result, 0, axis);
  }
};
Updates updates_of(const char* name, const At& x, int axis, const At& index, const At& source, Loc loc) {
  const Tensor value = resolve(x, name), places = integers(name, index, loc);
  const Type type = type_of(value);
  if (type.shape.rank() == 0) fail(name, loc, "into a 0-d tensor");
  const Shape shape = type_of(places).shape;
  const int normal = check_index(name, type, type_of(places), axis, loc);
  const bool one = !source.tensor || type_of(*source.tensor).shape.rank() == 0;
  const Tensor taken = one ? values_like(name, source, value, shape, loc)
                           : taken_part(name, source_for(name, source, value, loc), shape, loc);
  if (const Tensor rows = repeated_vector(places, type.shape, normal, loc); rows.defined()) {
    check_places(rows, value, normal, name, loc);
    return {movedim(value, normal, 0), rows, movedim(taken, normal, 0), type.shape, normal};
  }
  check_places(places, value, normal, name, loc);
  return {flatten(value), flatten(flat_positions(places, type.shape, normal, loc)), flatten(taken), type.shape, -1};
}

int check_vector(const char* name, const Tensor& value, const Tensor& places, int axis, Loc loc) {
  const int normal = normalize_axis(name, axis, type_of(value).shape.rank(), loc);
  if (type_of(places).shape.rank() != 1)
    fail(name, loc, "the index must be a vector, it is ", to_string(type_of(places)));
  check_places(places, value, normal, name, loc);
  return normal;
}

// Order reversed: of integers it can't overflow.
Tensor turned(const Tensor& x) { return is_floating(type_of(x).dtype) ? -x : ~x; }

// Of x and the updates at `index` that are the extreme of their place, each gets the same share of its gradient.
void differentiate_extreme(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &x = call.operands[0], &updates = call.operands[1], &index = call.operands[2], &y = call.results[0];
  const Type& type = type_of(x);
  const auto rows_of = [&](const Tensor& table) { return record(Op::gather, {table, index}, {}, {}, {}); };
  const Tensor own = cast(x == y, type.dtype), ties = cast(updates == rows_of(y), type.dtype);
  const Tensor count = own + meeting(Op::scatter_add, index, ties, type.shape, {});
  const Tensor share = call.gradients[0] / maximum(count, 1);
  gradients[0] = own * share;
  gradients[1] = ties * rows_of(share);
}
// The extreme of each element of x, a vector, and the updates at `index` that meet there.
Tensor extreme_with(const Tensor& x, const Tensor& updates, const Tensor& index, bool least, Loc loc) {
  const auto record = [least](const Tensor& x, const Tensor& updates, const Tensor& index) {
    const Shape& table = type_of(x).shape;
    if (!least) return maximum(x, meeting(Op::scatter_amax, index, updates, table, {}));
    return minimum(x, turned(meeting(Op::scatter_amax, index, turned(updates), table, {})));
  };
  return composite_with(differentiate_extreme, ChoiceCall{called("scatter_reduce"), least}, loc, record, x, updates,
                        index);
}

// The product of the rows of `updates` that meet at `index`, a vector, in a table of this shape: 1 where there is none.
// In the order of the index equal ones are neighbours: each element is multiplied with the one before it, then with the
// one two before, four before, as far as these are of its place. The last of a place has the product of all. Without a
// division, so that the derivative holds for zeros too.
Tensor product_meeting(const Tensor& index, const Tensor& updates, const Shape& table, Loc loc) {
  const Dim count = type_of(index).shape[0];
  const auto take = [&](const Tensor& x, const Tensor& rows) { return record(Op::gather, {x, rows}, {}, {}, loc); };
  const Tensor order = argsort(index, 0), sorted = take(index, order);
  Tensor product = take(updates, order);
  for (std::int64_t step = 1; Dim(step) < count; step *= 2) {
    const Tensor met = slice(sorted, 0, step) == slice(sorted, 0, 0, count - Dim(step));
    const Tensor before = slice(product, 0, 0, count - Dim(step)), own = slice(product, 0, step);
    const Tensor factor = where(along_rows(met, type_of(before).shape, loc), before, 1);
    product = concat({slice(product, 0, 0, step), own * factor}, 0);
  }
  const Tensor rows = positions(0, Shape::of(table[0]), type_of(index).device, loc);
  const Tensor last = maximum(searchsorted(sorted, rows, true) - 1, 0), found = take(sorted, last) == rows;
  return where(along_rows(found, table, loc), take(product, last), 1);
}

}  // namespace

Tensor scatter(At x, int axis, At index, At source) {
  LooseComposite call("scatter", x.loc);
  const Updates all = updates_of("scatter", x, axis, index, source, call.loc());
  return all.restored(update_rows(all.x, 0, all.index, all.source, false, call.loc()), call.loc());
}

Tensor scatter_reduce(At x, int axis, At index, At source, ScatterReduction reduce, bool include_self) {
  LooseComposite call("scatter_reduce", x.loc);
  check_choice("scatter_reduce", "ScatterReduction", reduce, ScatterReduction::prod, call.loc());
  const Updates all = updates_of("scatter_reduce", x, axis, index, source, call.loc());
  const DType dtype = type_of(all.x).dtype, wide = dtype == DType::boolean ? DType::u8 : computed_in(dtype);
  const bool adds = reduce == ScatterReduction::sum || reduce == ScatterReduction::mean;
  const bool least = reduce == ScatterReduction::amin, multiplies = reduce == ScatterReduction::prod;
  if (reduce == ScatterReduction::mean && !is_floating(dtype))
    fail("scatter_reduce", call.loc(), "the mean needs a floating dtype, it is ", to_string(type_of(all.x)));
  if (adds && dtype == DType::boolean)
    fail("scatter_reduce", call.loc(), "no sum of bool: ", to_string(type_of(all.x)));
  if (type_of(all.index).shape[0] == Dim(0) || type_of(all.x).shape[0] == Dim(0))
    return all.restored(all.x, call.loc());
  const Tensor own = cast(all.x, wide), updates = cast(all.source, wide);
  const Shape table = type_of(own).shape;
  Tensor result;
  if (multiplies) {
    result = product_meeting(all.index, updates, table, call.loc());
    if (include_self) result = own * result;
  } else if (!adds && include_self) {
    result = extreme_with(own, updates, all.index, least, call.loc());
  } else if (adds) {
    result = include_self ? update_rows(own, 0, all.index, updates, true, call.loc())
                          : meeting(Op::scatter_add, all.index, updates, table, call.loc());
  } else {
    result = meeting(Op::scatter_amax, all.index, least ? turned(updates) : updates, table, call.loc());
    if (least) result = turned(result);
  }
  if (reduce == ScatterReduction::mean) {
    Type each = type_of(updates);
    each.shape = type_of(all.index).shape;
    const Tensor ones = constant_like(1, each, call.loc());
    const Tensor count =
        along_rows(meeting(Op::scatter_add, all.index, ones, Shape::of(table[0]), call.loc()), table, call.loc());
    result = result / (include_self ? count + 1 : maximum(count, 1));
  }
  result = cast(result, dtype);
  if (!include_self) {
    const Tensor written = last_writer(all.index, table[0], call.loc()) >= 0;
    result = where(along_rows(written, table, call.loc()), result, all.x);
  }
  return all.restored(result, call.loc());
}

Tensor index_reduce(At x, int axis, At index, At source, ScatterReduction reduce, bool include_self) {
  LooseComposite call("index_reduce", x.loc);
  check_choice("index_reduce", "ScatterReduction", reduce, ScatterReduction::prod, call.loc());
  const Tensor value = resolve(x, "index_reduce"), places = integers("index_reduce", index, call.loc());
  const Tensor updates = resolve(source, "index_reduce");
  const int normal = normalize_axis("index_reduce", axis, type_of(value).shape.rank(), call.loc());
  if (reduce == ScatterReduction::sum) fail("index_reduce", call.loc(), "makes no sums: index_add does");
  if (type_of(places).shape.rank() != 1)
    fail("index_reduce", call.loc(), "the index must be a vector, it is ", to_string(type_of(places)));
  Shape wanted = type_of(value).shape, along;
  wanted[normal] = type_of(places).shape[0];
  if (!(type_of(updates).shape == wanted))
    fail("index_reduce", call.loc(), "the source is ", to_string(type_of(updates)), ", not ",
         to_string(Type{type_of(value).dtype, false, {}, wanted}));
  for (int i = 0; i < wanted.rank(); ++i) along.push_back(i == normal ? wanted[i] : Dim(1));
  const Tensor each = expand(reshape_to(places, along, call.loc()), wanted);
  return scatter_reduce(value, normal, each, updates, reduce, include_self);
}

Tensor index_copy(At x, int axis, At index, At source) {
  LooseComposite call("index_copy", x.loc);
  const Tensor value = autocast_widest("index_copy", resolve(x, "index_copy"), source),
               places = integers("index_copy", index, call.loc());
  const int normal = check_vector("index_copy", value, places, axis, call.loc());
  const Tensor updates = source_for("index_copy", source, value, call.loc());
  Shape wanted = type_of(value).shape;
  wanted[normal] = type_of(places).shape[0];
  if (!(type_of(updates).shape == wanted))
    fail("index_copy", call.loc(), "the source is ", to_string(type_of(updates)), ", not ",
         to_string(Type{type_of(value).dtype, false, {}, wanted}));
  return update_rows(value, normal, places, updates, false, call.loc());
}

Tensor index_fill(At x, int axis, At index, At value) {
  LooseComposite call("index_fill", x.loc);
  const Tensor of = resolve(x, "index_fill"), given = integers("index_fill", index, call.loc());
  const int normal = normalize_axis("index_fill", axis, type_of(of).shape.rank(), call.loc());
  if (type_of(given).shape.rank() != 1)
    fail("index_fill", call.loc(), "the index must be a vector, it is ", to_string(type_of(given)));
  const Tensor places = from_end(given, type_of(of).shape[normal], "index_fill", call.loc(), of, normal);
  if (value.tensor && type_of(*value.tensor).shape.rank() != 0)
    fail("index_fill", call.loc(), "the value must be a number, it is ", to_string(type_of(*value.tensor)));
  Shape rows = type_of(of).shape;
  rows[normal] = type_of(places).shape[0];
  return update_rows(of, normal, places, values_like("index_fill", value, of, rows, call.loc()), false, call.loc());
}

Tensor set_rows(At x, At rows, At values) {
  LooseComposite call("set_rows", x.loc);
  const Tensor value = resolve(x, "set_rows"), given = integers("set_rows", rows, call.loc());
  const Shape shape = type_of(value).shape, lead = type_of(given).shape;
  if (shape.rank() == 0) fail("set_rows", call.loc(), "of a 0-d tensor");
  const Tensor places = beside(from_end(given, shape[0], "set_rows", call.loc(), value, 0), value, call.loc());
  if (lead.rank() + shape.rank() - 1 > max_rank) fail("set_rows", call.loc(), "more than ", max_rank, " axes");
  const Tensor updates = values_like("set_rows", values, value, joined(lead, shape, 1), call.loc());
  const Dim count = lead.element_count();
  return update_rows(value, 0, flatten(places), reshape_to(updates, joined(Shape::of(count), shape, 1), call.loc()),
                     false, call.loc());
}

Tensor masked_scatter(At x, At mask, At source) {
  LooseComposite call("masked_scatter", x.loc);
  const Tensor value = resolve(x, "masked_scatter");
  Tensor where_true = resolve(mask, "masked_scatter");
  const Type type = type_of(value);
  if (type_of(where_true).dtype != DType::boolean)
    fail("masked_scatter", call.loc(), "the mask must be bool, it is ", to_string(type_of(where_true)));
  where_true = flatten(coerce(where_true, DType::boolean, false, type.shape, type.device, call.loc()));
  const Tensor elements = flatten(source_for("masked_scatter", source, value, call.loc()));
  const Dim count = type_of(elements).shape[0];
  const Tensor numbers = cumsum(where_true, 0);
  require(sum(where_true) <= dim_value(count, call.loc()), "masked_scatter", call.loc(),
          "the mask takes more elements than the source " + to_string(type_of(elements)) + " has");
  if (count == Dim(0) || type_of(where_true).shape[0] == Dim(0)) return value;
  const Tensor taken = record(Op::gather, {elements, where(where_true, numbers - 1, 0)}, {}, {}, call.loc());
  return reshape_to(where(where_true, taken, flatten(value)), type.shape, call.loc());
}

}  // namespace weft
