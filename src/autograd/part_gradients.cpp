#include "autograd/part_gradients.hpp"

#include <vector>

#include "ir/attributes.hpp"

namespace weft {
namespace {

bool is_part(const Node& node) {
  return node.op == Op::pad && node.operand_count == 1 && node.attributes<Pad>().interior == 0;
}
// Of a concatenation its parts.
void add_parts(std::vector<Tensor>& to, const Tensor& value, int axis) {
  const Node& node = *value.node();
  if (node.op == Op::concat && node.operand_count > 0 && node.attributes<Along>().axis == axis)
    to.insert(to.end(), node.inputs().begin(), node.inputs().end());
  else
    to.push_back(value);
}
// `first` has what lies before.
Tensor joined(const Node& first, const Node& second) {
  const auto &before = first.attributes<Pad>(), &after = second.attributes<Pad>();
  const int axis = before.axis;
  const Dim size = type_of(first.input(0)).shape[axis] + type_of(second.input(0)).shape[axis];
  if (after.axis != axis || !second.type.same(first.type) ||
      !(before.before + type_of(first.input(0)).shape[axis]).same(after.before) ||
      !(before.before + size + after.after).same(first.type.shape[axis]))
    return {};
  std::vector<Tensor> parts;
  add_parts(parts, first.input(0), axis);
  add_parts(parts, second.input(0), axis);
  const RecordingBuilder build;
  const Tensor both = build.make(Op::concat, parts, Along{before.axis}, {});
  if (before.before.same(Dim(0)) && after.after.same(Dim(0))) return both;
  return build.make(Op::pad, {both}, Pad{before.axis, before.before, after.after});
}

}  // namespace

Tensor join_gradients(const Tensor& a, const Tensor& b) {
  if (!is_part(*a.node()) || !is_part(*b.node())) return {};
  const Tensor result = joined(*a.node(), *b.node());
  return result.defined() ? result : joined(*b.node(), *a.node());
}

}  // namespace weft
