#include "passes/fold.hpp"

#include <algorithm>

#include "interpret/reference.hpp"
#include "ir/builder.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

// The same number without axes, as the reference column takes it.
Tensor number(const Tensor& value) {
  Type type = type_of(value);
  type.shape = {};
  return Builder(*value.node()).make(Op::constant, {}, value.node()->attributes(), type);
}

// Every element is a copy of one of the source's, so a uniform source stays uniform; also of a symbolic size, which is
// one number for all elements as well.
bool keeps_value(const Node& node) { return is_view(node.op); }

// Whether the kernels give the rounded reference to the last bit: they do where both round once. Functions have an
// error of their own, so constants pass through the kernels' as other operands do.
bool is_exact(const Node& node) {
  return !is_floating(node.type.dtype) || info(node.op).kind == OpKind::cast ||
         info(node.op).rounding != Rounding::several;
}

Tensor fold_node(const Node& node, std::span<const Tensor> operands) {
  if (keeps_value(node) && operands[0].node()->op == Op::constant)
    return Builder(node).constant(operands[0].node()->attributes<Constant>(), node.type);
  if (!is_pointwise(node.op) || !is_exact(node) || !std::all_of(operands.begin(), operands.end(), is_uniform))
    return {};
  Tensor numbers[3];
  for (std::size_t i = 0; i < operands.size(); ++i) numbers[i] = number(operands[i]);
  auto folded = fold(node.op, node.type, std::span(numbers, operands.size()));
  return folded ? Builder(node).constant(*folded, node.type) : Tensor();
}

}  // namespace

Graph fold_constants(const Graph& graph, const PassContext& context) {
  return rewrite(in_bodies(graph, fold_constants, context), fold_node);
}

}  // namespace weft
