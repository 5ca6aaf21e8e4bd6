// Public functions that read and add at positions which are data, over gather and scatter_add of rows: positions along
// any axis become positions in the flattened tensor.
#include <cmath>
#include <limits>

#include "base/fail.hpp"
#include "record/autocast.hpp"
#include "record/composite.hpp"
#include "record/dry_run.hpp"
#include "record/indexing.hpp"

namespace weft {

Tensor integers(const char* name, const At& given, Loc loc) {
  const Tensor index = resolve(given, name);
  if (!is_integer(type_of(index).dtype))
    fail(name, loc, "the index must be an integer, it is ", to_string(type_of(index)),
         type_of(index).dtype == DType::boolean ? " (by a mask select where, masked_fill and masked_select)" : "");
  return cast(index, DType::i64);
}

Tensor beside(const Tensor& index, const Tensor& table, Loc loc) {
  if (type_of(index).shape.rank() != 0 || type_of(index).device.type != Device::Type::cpu) return index;
  return coerce(index, DType::i64, false, {}, type_of(table).device, loc);
}

std::string place_text(std::int64_t element, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank(); axis-- > 0; element /= shape[axis].constant())
    text = std::to_string(element % shape[axis].constant()) + (text.empty() ? "" : ",") + text;
  return shape.rank() == 1 ? text : "[" + text + "]";
}

namespace {

// " of axis 0 of f32[2,3]"; a negative axis: no axis is meant; of no table: nothing.
std::string range_of(const Tensor& table, int axis) {
  if (!table.defined()) return {};
  const std::string type = to_string(type_of(table));
  return axis < 0 ? " for " + type : concat_text(" of axis ", axis, " of ", type);
}

// "7, element 1 of i64[2]": the first that is not in [least, end). Empty where there is none.
std::string first_outside(const Tensor& index, std::int64_t least, std::int64_t end, Loc loc) {
  const Tensor values = cast(index, DType::i64);
  const Shape shape = type_of(values).shape;
  std::vector<std::int64_t> all(static_cast<std::size_t>(shape.element_count().constant()));
  values.copy_to<std::int64_t>(all, loc);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] < least || all[i] >= end)
      return concat_text(all[i], shape.rank() == 0
                                     ? std::string()
                                     : concat_text(", element ", place_text(static_cast<std::int64_t>(i), shape),
                                                   " of ", to_string(type_of(index))));
  return {};
}

}  // namespace

void require_in_range(const Tensor& fine, const Tensor& index, Dim least, Dim end, const std::string& of,
                      const char* operation, Loc loc) {
  const std::string text =
      concat_text("an index is out of range [", dims::to_string(least), ", ", dims::to_string(end), ")", of, ": ");
  // The check tells at once where values are computed at once: outside of a trace, on the host.
  const bool tells_at_once =
      !recorder().trace() && !is_dry_run && type_of(index).device.type == Device::Type::cpu && end.is_constant();
  try {
    require(fine, operation, loc, text + "one of " + to_string(type_of(index)));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    const std::string found =
        tells_at_once ? first_outside(index, least.constant(), end.constant(), loc) : std::string();
    if (found.empty()) throw;
    fail(operation, loc, text, found);
  }
}

void check_range(const Tensor& index, Dim rows, const char* operation, Loc loc, const Tensor& table) {
  if (index.element_count().same(Dim(0))) return;
  require_in_range(~any((index < 0) | (index >= dim_value(rows, loc))), index, 0, rows, range_of(table, -1), operation,
                   loc);
}

void check_places(const Tensor& index, const Tensor& table, int axis, const char* operation, Loc loc) {
  if (index.element_count().same(Dim(0))) return;
  const Dim size = type_of(table).shape[axis];
  require_in_range(~any((index < 0) | (index >= dim_value(size, loc))), index, 0, size, range_of(table, axis),
                   operation, loc);
}

Tensor from_end(const Tensor& index, Dim size, const char* operation, Loc loc, const Tensor& table, int axis) {
  const Tensor length = dim_value(size, loc);
  if (!index.element_count().same(Dim(0)))
    require_in_range(~any((index < -length) | (index >= length)), index, -size, size, range_of(table, axis), operation,
                     loc);
  return where(index < 0, index + length, index);
}

Tensor flat_positions(const Tensor& index, const Shape& shape, int axis, Loc loc) {
  Tensor position = index;
  Dim stride = 1;
  const int rank = shape.rank();
  for (int i = rank; i-- > 0; stride = stride * shape[i]) {
    const Tensor scale = dim_value(stride, loc);
    if (i == axis) {
      position = index.same(position) ? index * scale : position + index * scale;
      continue;
    }
    const Tensor own = positions(i, type_of(index).shape, type_of(index).device, loc) * scale;
    position = index.same(position) ? own : position + own;
  }
  return position;
}

int check_index(const char* name, const Type& type, const Type& index, int axis, Loc loc) {
  const int normal = normalize_axis(name, axis, type.shape.rank(), loc);
  bool fits = index.shape.rank() == type.shape.rank();
  for (int i = 0; fits && i < type.shape.rank(); ++i) fits = i == normal || index.shape[i] <= type.shape[i];
  if (!fits) fail(name, loc, "the index ", to_string(index), " does not fit ", to_string(type), " beside axis ", axis);
  return normal;
}

Tensor taken_part(const char* name, const Tensor& source, const Shape& index, Loc loc) {
  const Shape shape = type_of(source).shape;
  bool fits = shape.rank() == index.rank();
  for (int i = 0; fits && i < index.rank(); ++i) fits = index[i] <= shape[i];
  if (!fits)
    fail(name, loc, "the index ", to_string(Type{DType::i64, false, {}, index}), " does not fit the source ",
         to_string(type_of(source)));
  Tensor result = source;
  for (int i = 0; i < index.rank(); ++i)
    if (!(index[i] == shape[i])) result = slice(result, i, 0, index[i]);
  return result;
}

Tensor source_for(const char* name, const At& source, const Tensor& x, Loc loc) {
  const Tensor given = resolve(source, name);
  const Type &from = type_of(given), &to = type_of(x);
  if (is_floating(from.dtype) && !is_floating(to.dtype)) {
    if (source.tensor)
      fail(name, loc, "a floating source would be cut to ", info(to.dtype).name, ": ", to_string(from), " into ",
           to_string(to), ": cast it first");
    if (source.number != std::trunc(source.number))
      fail(name, loc, "the number ", source.number, " does not fit into ", to_string(to));
  }
  return coerce(given, to.dtype, false, from.shape, to.device, loc);
}

Tensor values_like(const char* name, const At& given, const Tensor& x, const Shape& shape, Loc loc) {
  const Type& type = type_of(x);
  return coerce(source_for(name, given, x, loc), type.dtype, false, shape, type.device, loc);
}

Shape joined(const Shape& first, const Shape& second, int from) {
  Shape result = first;
  for (int i = from; i < second.rank(); ++i) result.push_back(second[i]);
  return result;
}

namespace {
// Every axis but this one has one element, or its elements lie in one place.
bool repeats(const Tensor& index, int axis) {
  const Node* node = index.node();
  const Shape& shape = type_of(index).shape;
  if (node->storage == nullptr && node->op == Op::cast && node->operand_count == 1)
    return repeats(node->input(0), axis);
  const bool expands = node->storage == nullptr && node->op == Op::expand && node->operand_count == 1;
  const auto lies_in_one_place = [&](int i) {
    if (!expands) return node->layout && node->layout->strides[i] == 0;
    const Shape& from = type_of(node->input(0)).shape;
    const int own = i - (shape.rank() - from.rank());
    return own < 0 || from[own].same(Dim(1));
  };
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis && !shape[i].same(Dim(1)) && !lies_in_one_place(i)) return false;
  return true;
}
}  // namespace

Tensor repeated_vector(const Tensor& index, const Shape& shape, int axis, Loc loc) {
  const Shape& own = type_of(index).shape;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis && (!own[i].same(shape[i]) || own[i] == Dim(0))) return {};
  if (!repeats(index, axis)) return {};
  Tensor vector = index;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis && !own[i].same(Dim(1))) vector = slice(vector, i, 0, 1);
  return reshape_to(vector, Shape::of(own[axis]), loc);
}

Tensor update_rows(const Tensor& x, int axis, const Tensor& index, const Tensor& updates, bool adds, Loc loc) {
  if (type_of(index).shape[0].same(Dim(0)) || type_of(x).shape[axis].same(Dim(0))) return x;
  return record(Op::update_rows, {x, updates, index}, RowUpdate{static_cast<std::uint8_t>(axis), adds}, {}, loc);
}

Tensor meeting(Op op, const Tensor& index, const Tensor& updates, const Shape& table, Loc loc) {
  Type type = type_of(updates);
  if (type.dtype == DType::boolean)  // a sum of bools is true where one of them is
    return meeting(Op::scatter_amax, index, cast(updates, DType::u8), table, loc) != 0;
  type.shape = table;
  return record(op, {index, updates}, {}, type, loc);
}

Tensor masked_fill(At x, At mask, At value) {
  LooseComposite call("masked_fill", x.loc);
  const Tensor of = resolve(x, "masked_fill"), where_true = resolve(mask, "masked_fill");
  if (type_of(where_true).dtype != DType::boolean)
    fail("masked_fill", call.loc(), "the mask must be bool, it is ", to_string(type_of(where_true)));
  if (value.tensor && type_of(*value.tensor).shape.rank() != 0)
    fail("masked_fill", call.loc(), "the value must be a number, it is ", to_string(type_of(*value.tensor)));
  return where(where_true, source_for("masked_fill", value, of, call.loc()), of);
}

Tensor gather(At x, int axis, At index) {
  LooseComposite call("gather", x.loc);
  const Tensor value = resolve(x, "gather"), picks = integers("gather", index, call.loc());
  const Type type = type_of(value);
  if (type.shape.rank() == 0) fail("gather", call.loc(), "from a 0-d tensor");
  const int normal = check_index("gather", type, type_of(picks), axis, call.loc());
  if (const Tensor rows = repeated_vector(picks, type.shape, normal, call.loc()); rows.defined()) {
    check_places(rows, value, normal, "gather", call.loc());
    return movedim(record(Op::gather, {movedim(value, normal, 0), rows}, {}, {}, call.loc()), 0, normal);
  }
  check_places(picks, value, normal, "gather", call.loc());
  return record(Op::gather, {flatten(value), flat_positions(picks, type.shape, normal, call.loc())}, {}, {},
                call.loc());
}

Tensor index_select(At x, int axis, At index) {
  LooseComposite call("index_select", x.loc);
  const Tensor value = resolve(x, "index_select");
  Tensor picks = integers("index_select", index, call.loc());
  if (type_of(picks).shape.rank() == 0) picks = unsqueeze(picks, 0);
  const int normal = normalize_axis("index_select", axis, type_of(value).shape.rank(), call.loc());
  if (type_of(picks).shape.rank() != 1)
    fail("index_select", call.loc(), "the index must be a vector, it is ", to_string(type_of(picks)));
  return movedim(gather(movedim(value, normal, 0), picks), 0, normal);
}

Tensor scatter_add(At x, int axis, At index, At source) {
  LooseComposite call("scatter_add", x.loc);
  const Tensor value = autocast_widest("scatter_add", resolve(x, "scatter_add"), source),
               places = integers("scatter_add", index, call.loc());
  const Type type = type_of(value);
  if (type.shape.rank() == 0) fail("scatter_add", call.loc(), "into a 0-d tensor");
  const int normal = check_index("scatter_add", type, type_of(places), axis, call.loc());
  const Tensor updates = taken_part("scatter_add", source_for("scatter_add", source, value, call.loc()),
                                    type_of(places).shape, call.loc());
  if (const Tensor rows = repeated_vector(places, type.shape, normal, call.loc()); rows.defined()) {
    check_places(rows, value, normal, "scatter_add", call.loc());
    return update_rows(value, normal, rows, updates, true, call.loc());
  }
  check_places(places, value, normal, "scatter_add", call.loc());
  const Tensor flat = flatten(flat_positions(places, type.shape, normal, call.loc()));
  return reshape_to(update_rows(flatten(value), 0, flat, flatten(updates), true, call.loc()), type.shape, call.loc());
}

Tensor index_add(At x, int axis, At index, At source) {
  LooseComposite call("index_add", x.loc);
  const Tensor value = resolve(x, "index_add"), places = integers("index_add", index, call.loc());
  const int normal = normalize_axis("index_add", axis, type_of(value).shape.rank(), call.loc());
  const Tensor updates = source_for("index_add", source, value, call.loc());
  Shape wanted = type_of(value).shape;
  if (type_of(places).shape.rank() != 1)
    fail("index_add", call.loc(), "the index must be a vector, it is ", to_string(type_of(places)));
  wanted[normal] = type_of(places).shape[0];
  if (!(type_of(updates).shape == wanted))
    fail("index_add", call.loc(), "the source is ", to_string(type_of(updates)), ", not ",
         to_string(Type{type_of(value).dtype, false, {}, wanted}));
  check_places(places, value, normal, "index_add", call.loc());
  return update_rows(value, normal, places, updates, true, call.loc());
}

// ---- counts ---------------------------------------------------------------------------------------------------------

Tensor bincount(At index, Dim count) {
  LooseComposite call("bincount", index.loc);
  const Tensor places = integers("bincount", index, call.loc());
  if (type_of(places).shape.rank() != 1)
    fail("bincount", call.loc(), "needs a vector, it is ", to_string(type_of(places)));
  check_extent("bincount", "the count", count, call.loc());
  if (count < Dim(0)) fail("bincount", call.loc(), "the count must not be negative, it is ", dims::to_string(count));
  check_range(places, count, "bincount", call.loc());
  return record(Op::scatter_add, {places, ones_like(places)}, {},
                Type{DType::i64, false, type_of(places).device, Shape::of(count)}, call.loc());
}

Tensor histc(At x, std::int64_t bins, double least, double greatest) {
  LooseComposite call("histc", x.loc);
  const Tensor value = flatten(resolve(x, "histc"));
  const Type type = type_of(value);
  if (!is_floating(type.dtype)) fail("histc", call.loc(), "needs a floating dtype, it is ", to_string(type));
  if (bins < 1) fail("histc", call.loc(), "the number of bins is ", bins);
  if (!(least < greatest) || !std::isfinite(least) || !std::isfinite(greatest))
    fail("histc", call.loc(), "the range must be finite and ascending, it is from ", least, " to ", greatest);
  const DType computed = computed_in(type.dtype);
  const double most = computed == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const double width = greatest - least, bins_per_unit = static_cast<double>(bins) / width;
  if (!(std::max({-least, greatest, width, bins_per_unit}) <= most))
    fail("histc", call.loc(), info(computed).name, " does not hold what divides the range from ", least, " to ",
         greatest, " into ", counted(bins, "bin", "bins"));
  const Tensor wide = cast(value, computed);
  const Tensor inside = (wide >= least) & (wide <= greatest);
  const Tensor bin = minimum(cast((where(inside, wide, least) - least) * bins_per_unit, DType::i64), bins - 1);
  Type counts = type;
  counts.dtype = DType::i64;
  counts.shape = Shape::of(bins);
  return cast(record(Op::scatter_add, {bin, cast(inside, DType::i64)}, {}, counts, call.loc()), type.dtype);
}

}  // namespace weft
