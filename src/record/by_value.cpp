// Public functions whose results have sizes that depend on values: these are read, and the positions that they give are
// data. What is taken at the positions is a gather, with its derivative.
#include <algorithm>
#include <vector>

#include "base/fail.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/indexing.hpp"
#include "weft/statistics.hpp"

namespace weft {
namespace {

// Where the bools are true, [count, rank].
Tensor places_of(const char* name, const Tensor& flags, Loc loc) {
  const Tensor known = known_value(name, flags, loc);
  const Type& type = type_of(known);
  const int rank = type.shape.rank();
  const auto truth = known.data<bool>(loc);
  const std::int64_t size = type.shape.element_count().constant();
  const bool* const flag = truth.begin();
  const std::int64_t found = std::count(flag, flag + size, true);
  std::vector<std::int64_t> places(static_cast<std::size_t>(found * rank) + 1);
  // The row is written for each element, and kept where it is true: which are is not foreseen by a processor.
  std::int64_t at[max_rank] = {}, row = 0;
  if (rank == 1) {
    for (std::int64_t i = 0; i < size; ++i) {
      places[static_cast<std::size_t>(row)] = i;
      row += flag[i];
    }
  } else {
    for (std::int64_t i = 0; i < size; ++i) {
      if (flag[i]) row = std::copy_n(at, rank, places.begin() + row) - places.begin();
      for (int axis = rank; axis-- > 0 && ++at[axis] == type.shape[axis].constant();) at[axis] = 0;
    }
  }
  places.pop_back();
  return counted_data(places, Shape::of(found, rank), type.device, loc);
}

}  // namespace

Tensor places_of_true(const char* name, const Tensor& flags, Loc loc) { return places_of(name, flags, loc); }

Tensor nonzero(At x) {
  LooseComposite call("nonzero", x.loc);
  const Tensor value = resolve(x, "nonzero");
  return places_of_true("nonzero", type_of(value).dtype == DType::boolean ? value : value != 0, call.loc());
}

Tensor masked_select(At x, At mask) {
  LooseComposite call("masked_select", x.loc);
  const Tensor value = resolve(x, "masked_select"), wanted = resolve(mask, "masked_select");
  if (type_of(wanted).dtype != DType::boolean)
    fail("masked_select", call.loc(), "the mask must be bool, it is ", to_string(type_of(wanted)));
  const Tensor both[] = {value, wanted};
  const Shape shape = broadcast("masked_select", both, call.loc());
  const Tensor places = flatten(places_of("masked_select", flatten(expand(wanted, shape)), call.loc()));
  return record(Op::gather, {flatten(expand(value, shape)), places}, {}, {}, call.loc());
}

namespace {

// Neighbours in a vector that are equal are one group.
struct Groups {
  Tensor places, numbers;  // the first element of each group; the group of each element
};
Groups groups_of(const char* name, const Tensor& elements, Loc loc) {
  const Type& type = type_of(elements);
  const Tensor differs = cast(slice(elements, 0, 1) != slice(elements, 0, 0, -1), DType::u8);
  const Tensor first = (positions(0, type.shape, type.device, loc) == 0) | (pad(differs, 0, 1, 0) != 0);
  return {flatten(places_of(name, first, loc)), cumsum(first, 0) - 1};
}

}  // namespace

Unique unique(At x) {
  LooseComposite call("unique", x.loc);
  const Tensor value = resolve(x, "unique");
  const Tensor flat = flatten(value);
  if (type_of(flat).shape[0] == Dim(0)) return {flat, cast(value, DType::i64), cast(flat, DType::i64)};
  const auto [sorted, order] = sort(flat, 0);
  const auto [places, group] = groups_of("unique", sorted, call.loc());
  return {record(Op::gather, {sorted, places}, {}, {}, call.loc()),
          reshape_to(index_copy(zeros_like(order), 0, order, group), type_of(value).shape, call.loc()),
          bincount(group, type_of(places).shape[0])};
}

Unique unique_consecutive(At x) {
  LooseComposite call("unique_consecutive", x.loc);
  const Tensor value = resolve(x, "unique_consecutive");
  const Tensor flat = flatten(value);
  if (type_of(flat).shape[0] == Dim(0)) return {flat, cast(value, DType::i64), cast(flat, DType::i64)};
  const auto [places, group] = groups_of("unique_consecutive", flat, call.loc());
  return {record(Op::gather, {flat, places}, {}, {}, call.loc()), reshape_to(group, type_of(value).shape, call.loc()),
          bincount(group, type_of(places).shape[0])};
}

Tensor repeat_interleave(At x, const Tensor& times, int axis) {
  LooseComposite call("repeat_interleave", x.loc);
  const Tensor value = resolve(x, "repeat_interleave"), counts = resolve(At(times, x.loc), "repeat_interleave");
  const Type &type = type_of(value), &wanted = type_of(counts);
  axis = normalize_axis("repeat_interleave", axis, type.shape.rank(), call.loc());
  if (wanted.shape.rank() != 1 || is_floating(wanted.dtype) || wanted.dtype == DType::boolean ||
      !(wanted.shape[0] == type.shape[axis]))
    fail("repeat_interleave", call.loc(), "the counts are ", to_string(wanted), " for axis ", axis, " of ",
         to_string(type));
  const Tensor known = known_value("repeat_interleave", cast(counts, DType::i64), call.loc());
  std::vector<std::int64_t> places;
  std::int64_t place = 0;
  for (const std::int64_t count : known.data<std::int64_t>(call.loc())) {
    if (count < 0) fail("repeat_interleave", call.loc(), "a count is negative: ", count);
    places.insert(places.end(), static_cast<std::size_t>(count), place++);
  }
  return index_select(
      value, axis, counted_data(places, Shape::of(static_cast<std::int64_t>(places.size())), type.device, call.loc()));
}

}  // namespace weft
