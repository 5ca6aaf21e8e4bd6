#include "graph/decompose.hpp"

#include "base/fail.hpp"
#include "graph/regions.hpp"

namespace weft {
namespace {

Tensor view(Op op, const Tensor& value, const Attributes& attributes, const Shape& shape, const Node& origin) {
  Type wanted = type_of(value);
  wanted.shape = shape;
  return build(op, {value}, attributes, wanted, origin);
}

Tensor cast(const Tensor& value, DType dtype, const Node& origin) {
  if (type_of(value).dtype == dtype) return value;
  return build(Op::cast, {value}, {}, Type{dtype, false, {}, {}}, origin);
}

// [batch, m, k] and [batch, k, n] both as [batch, m, n, k], multiplied and summed over k. 16-bit floats in f32.
Tensor product_and_sum(const Node& node, Tensor a, Tensor b) {
  const Shape out = node.type.shape;
  int rank = out.rank();
  if (rank + 1 > max_rank)
    fail("matmul", node.loc, "more than ", max_rank - 1, " axes for ", info(node.type.dtype).name);
  DType dtype = is_floating(node.type.dtype) ? DType::f32 : DType::i64;
  a = cast(a, dtype, node);
  b = cast(b, dtype, node);
  Attributes swap;
  for (int i = 0; i < rank; ++i) swap.axes[i] = static_cast<std::uint8_t>(i < rank - 2 ? i : 2 * rank - 3 - i);
  b = view(Op::permute, b, swap, {}, node);
  Shape wide_a, wide_b, full;
  for (int i = 0; i < rank - 2; ++i) wide_a.push_back(out[i]), wide_b.push_back(out[i]), full.push_back(out[i]);
  Dim k = type_of(a).shape[rank - 1];
  wide_a.push_back(out[rank - 2]), wide_a.push_back(1), wide_a.push_back(k);
  wide_b.push_back(1), wide_b.push_back(out[rank - 1]), wide_b.push_back(k);
  full.push_back(out[rank - 2]), full.push_back(out[rank - 1]), full.push_back(k);
  a = view(Op::expand, view(Op::reshape, a, {}, wide_a, node), {}, full, node);
  b = view(Op::expand, view(Op::reshape, b, {}, wide_b, node), {}, full, node);
  Attributes last;
  last.axes[rank] = 1;
  Tensor sum = build(Op::sum, {build(Op::mul, {a, b}, {}, {}, node)}, last, {}, node);
  return cast(view(Op::reshape, sum, {}, out, node), node.type.dtype, node);
}

}  // namespace

Graph decompose_matmul(const Graph& graph) {
  return rewrite(in_bodies(graph, decompose_matmul), [](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (node.op != Op::matmul || node.type.dtype == DType::f32 || node.type.dtype == DType::f64) return {};
    return product_and_sum(node, operands[0], operands[1]);
  });
}

Graph widen_scatter_add(const Graph& graph) {
  return rewrite(in_bodies(graph, widen_scatter_add), [](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (node.op != Op::scatter_add || (node.type.dtype != DType::f16 && node.type.dtype != DType::bf16)) return {};
    Type wide = node.type;
    wide.dtype = DType::f32;
    const Tensor updates = cast(operands[1], DType::f32, node);
    return cast(build(Op::scatter_add, {operands[0], updates}, node.attributes, wide, node), node.type.dtype, node);
  });
}

Graph local_collectives(const Graph& graph) {
  return rewrite(in_bodies(graph, local_collectives), [](const Node& node, std::span<const Tensor> operands) -> Tensor {
    return info(node.op).kind == OpKind::collective ? operands[0] : Tensor();
  });
}

}  // namespace weft
