#include "record/ones.hpp"

#include <algorithm>

#include "base/dim_expression.hpp"

namespace weft {

namespace {

bool is_symbolic(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](Dim size) { return !size.is_constant(); });
}
// A size of an argument, or of axes that were merged: a product of some.
bool is_of_argument(Dim size) {
  const std::vector<DimTerm> terms = dims::terms(size);
  return terms.size() == 1 &&
         std::ranges::all_of(terms[0].factors, [](const DimNode* factor) { return factor->kind == DimKind::symbol; });
}

// The axes that have a say in the order in which elements are combined, where they are of size 1: those of the result
// that come after a reduced one, and then reduced ones around them.
AxisSet ordering_axes(AxisSet over, int rank) {
  AxisSet axes;
  int first = 0, last = rank - 1;
  while (first < rank && !over[first]) ++first;
  while (last >= 0 && !over[last]) --last;
  bool between = false;
  for (int i = first; i < last; ++i) between |= !over[i];
  for (int i = first; i < rank; ++i)
    if (!over[i] || between) axes.insert(i);
  return axes;
}

}  // namespace

Tensor with_ones_at(const Tensor& value, AxisSet axes, Loc loc) {
  if (!is_symbolic(type_of(value).shape)) return value;
  Trace& trace = *recorder().trace();
  const auto found = trace.plain_ones.find(value.word());
  const Tensor known = found == trace.plain_ones.end() ? value : found->second;
  Type type = type_of(known);
  bool changed = false;
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    Dim& size = type.shape[axis];
    if (size.is_constant() || (is_of_argument(size) && !axes[axis]) || !(size == Dim(1))) continue;
    size = 1;
    changed = true;
  }
  if (!changed) return known;
  const Tensor plain = record(Op::reshape, {known}, {}, type, loc);
  trace.plain_ones.insert_or_assign(value.word(), plain);
  return plain;
}

Tensor with_plain_ones(const Tensor& value, Loc loc) { return with_ones_at(value, {}, loc); }

void settle_ones(std::span<Tensor> operands, int kept, Loc loc) {
  if (std::ranges::none_of(operands, [](const Tensor& each) { return is_symbolic(type_of(each).shape); })) return;
  AxisSet differ;  // counted from the last axis
  for (int axis = kept; axis < max_rank; ++axis) {
    Dim common = 1;
    for (const Tensor& operand : operands) {
      const Shape& shape = type_of(operand).shape;
      const Dim size = axis < shape.rank() ? shape[shape.rank() - 1 - axis] : Dim(1);
      if (size.same(Dim(1)) || size.same(common)) continue;
      if (!common.same(Dim(1))) differ.insert(axis);
      common = size;
    }
  }
  for (Tensor& operand : operands) {
    const int rank = type_of(operand).shape.rank();
    AxisSet axes;
    for (int axis = 0; axis < rank; ++axis)
      if (differ[rank - 1 - axis]) axes.insert(axis);
    operand = with_ones_at(operand, axes, loc);
  }
}

Tensor settled_for(const Tensor& value, const Shape& shape, Loc loc) {
  const Shape& from = type_of(value).shape;
  const int lead = shape.rank() - from.rank();
  AxisSet differ;
  for (int axis = 0; lead >= 0 && axis < from.rank(); ++axis)
    if (!from[axis].same(shape[axis + lead])) differ.insert(axis);
  return with_ones_at(value, differ, loc);
}

// The shape says in which order elements are combined, which floats show: there an axis of size 1 does not count.
Tensor settled_for_sum(const Tensor& value, AxisSet over, Loc loc) {
  const int rank = type_of(value).shape.rank();
  return rank > 1 ? with_ones_at(value, ordering_axes(over, rank), loc) : value;
}

}  // namespace weft
