// Where a group's members lie on its domain, and what nodes are besides their group.
#include "schedule/group.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft {

IndexVector domain_index(const Group& group) {
  IndexVector index;
  for (int i = 0; i < group.domain.rank(); ++i) index.push_back(dims::axis(i, group.domain[i]));
  return index;
}

namespace {

// Matches the sizes of `shape` that are not 1, in order, with those axes of the domain that `use` admits.
template <class Use>
bool match(const Group& group, const Shape& shape, Use use, IndexVector& index) {
  index.assign(static_cast<std::size_t>(shape.rank()), Dim(0));
  int axis = 0;
  auto skip = [&] {
    while (axis < group.domain.rank() && (!use(axis) || group.domain[axis].same(Dim(1)))) ++axis;
  };
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].same(Dim(1))) continue;
    skip();
    if (axis == group.domain.rank() || !group.domain[axis].same(shape[i])) return false;
    index[static_cast<std::size_t>(i)] = dims::axis(axis, group.domain[axis]);
    ++axis;
  }
  skip();
  return axis == group.domain.rank();
}

}  // namespace

bool fills_domain(const Group& group, const Shape& shape) {
  IndexVector index;
  return match(
      group, shape, [](int) { return true; }, index);
}

bool member_index(const Group& group, const Shape& shape, IndexVector& index) {
  if (match(
          group, shape, [](int) { return true; }, index))
    return true;
  return group.reduces && match(
                              group, shape, [&](int axis) { return !group.inner[axis]; }, index);
}

bool column_index(const Group& group, const Shape& shape, IndexVector& index) {
  return match(
      group, shape, [&](int axis) { return group.inner[axis]; }, index);
}

namespace {

bool aligned(const Grouping& grouping, int id, const Tensor& value, const IndexVector& index, bool behind,
             int budget = 64) {
  const Node& node = *value.node();
  const Placement& placement = grouping[value];
  const Group& group = grouping.group(id);
  const bool through = grouping.is_read_through(placement, id);
  if (placement.role == Role::grouped && !through) {
    if (grouping.find(placement.group) != id) return true;
    if (placement.column != behind) return false;
    IndexVector own;
    if (!(behind ? column_index(group, node.type.shape, own) : member_index(group, node.type.shape, own))) return false;
    for (std::size_t i = 0; i < own.size(); ++i)
      if (!own[i].same(index[i])) return false;
    return true;
  }
  if (!through) return true;
  if (budget == 0) return placement.depth < group.depth;
  if (is_view(node.op)) return aligned(grouping, id, node.input(0), map_through_view(node, index), behind, budget - 1);
  return std::all_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Tensor& operand) { return aligned(grouping, id, operand, index, behind, budget - 1); });
}

// Whether a value is computed by the group, or from what is, where it is read.
bool reads_group(const Grouping& grouping, int id, const Tensor& value, int budget = 64) {
  const Placement& placement = grouping[value];
  if (placement.role == Role::grouped && grouping.find(placement.group) == id) return true;
  const auto inputs = value.node()->inputs();
  return grouping.is_read_through(placement, id) && budget > 0 &&
         std::any_of(inputs.begin(), inputs.end(),
                     [&](auto& operand) { return reads_group(grouping, id, operand, budget - 1); });
}

}  // namespace

bool operands_aligned(const Grouping& grouping, int id, const Node& node, const IndexVector& index, bool behind) {
  if (node.op == Op::gather) {
    if (reads_group(grouping, id, node.input(0))) return false;
    const auto lead = static_cast<std::ptrdiff_t>(type_of(node.input(1)).shape.rank());
    return aligned(grouping, id, node.input(1), IndexVector(index.begin(), index.begin() + lead), behind);
  }
  // A pad or a concatenation is asked for where its operand has no element.
  if (info(node.op).kind == OpKind::assemble)
    return std::none_of(node.inputs().begin(), node.inputs().end(),
                        [&](const Tensor& operand) { return reads_group(grouping, id, operand); });
  IndexVector read_at = index;
  if (node.op == Op::random_bits) read_at.clear();
  if (is_view(node.op)) read_at = map_through_view(node, index);
  return std::all_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Tensor& operand) { return aligned(grouping, id, operand, read_at, behind); });
}

bool is_serial(const Group& group) {
  if (!group.reduces || group.scans) return false;
  Dim outer = 1, inside = 1;
  for (int i = 0; i < group.domain.rank(); ++i)
    (group.inner[i] ? inside : outer) = (group.inner[i] ? inside : outer) * group.domain[i];
  return outer.is_constant() && inside.is_constant() && outer.constant() < 8 && inside.constant() > 65536;
}

bool is_further_result(const Node& node) { return node.operand_count == 1 && node.input(0).output() > 0; }

Tensor memory_base(const Tensor& value) {
  Tensor base = value;
  while (base.node()->op == Op::reshape || info(base.node()->op).kind == OpKind::identity) {
    const Tensor& below = base.node()->input(0);
    OpKind kind = info(below.node()->op).kind;
    if (kind == OpKind::leaf || below.node()->layout) break;  // arguments are not results: a copy is due
    base = below;
  }
  return base;
}

bool walks(const Node& node) { return is_reduce(node.op) || is_cumulative(node.op); }

bool reduces_nothing(const Node& node) {
  if (is_cumulative(node.op)) return node.type.shape[node.attributes<Along>().axis].same(Dim(1));
  if (!is_reduce(node.op)) return false;
  const Shape& shape = type_of(node.input(0)).shape;
  for (int i = 0; i < shape.rank(); ++i)
    if (node.attributes<Reduce>().axes[i] && !shape[i].same(Dim(1))) return false;
  return true;
}

}  // namespace weft
