#include "passes/decompose.hpp"

#include "base/fail.hpp"
#include "passes/regions.hpp"

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

// The first two axes as one.
Tensor with_merged_batch(const Tensor& value, const Node& node) {
  const Shape& from = type_of(value).shape;
  Shape merged;
  merged.push_back(from[0] * from[1]);
  for (int i = 2; i < from.rank(); ++i) merged.push_back(from[i]);
  return view(Op::reshape, value, {}, merged, node);
}

// [batch, m, k] and [batch, k, n] both as [batch, m, n, k], multiplied and summed over k. 16-bit floats in f32. Sizes
// that are equal only by a guard stay what they are on either side, since a reshape compares counts.
Tensor product_and_sum(const Node& node, Tensor a, Tensor b) {
  if (node.type.shape.rank() == max_rank) {  // no room for k
    a = with_merged_batch(a, node);
    b = with_merged_batch(b, node);
  }
  const DType dtype = is_floating(node.type.dtype) ? DType::f32 : DType::i64;
  a = cast(a, dtype, node);
  b = cast(b, dtype, node);
  const Shape from_a = type_of(a).shape, from_b = type_of(b).shape;
  const int rank = from_a.rank(), row = rank - 2, column = rank - 1;
  WEFT_CHECK(rank < max_rank, "a product of ", rank, " axes");
  AxisList swap;
  for (int i = 0; i < rank; ++i) swap.push_back(static_cast<std::uint8_t>(i < row ? i : row + column - i));
  b = view(Op::permute, b, Permute{swap}, {}, node);
  Shape wide_a, wide_b, full;
  for (int i = 0; i < row; ++i) wide_a.push_back(from_a[i]), wide_b.push_back(from_b[i]), full.push_back(from_a[i]);
  wide_a.push_back(from_a[row]), wide_a.push_back(1), wide_a.push_back(from_a[column]);
  wide_b.push_back(1), wide_b.push_back(from_b[column]), wide_b.push_back(from_b[row]);
  full.push_back(from_a[row]), full.push_back(from_b[column]), full.push_back(from_a[column]);
  a = view(Op::expand, view(Op::reshape, a, {}, wide_a, node), {}, full, node);
  b = view(Op::expand, view(Op::reshape, b, {}, wide_b, node), {}, full, node);
  Reduce last;
  last.axes.insert(rank);
  Tensor sum = build(Op::sum, {build(Op::mul, {a, b}, {}, {}, node)}, last, {}, node);
  return cast(view(Op::reshape, sum, {}, node.type.shape, node), node.type.dtype, node);
}

}  // namespace

Graph decompose_matmul(const Graph& graph, const PassContext& context) {
  const auto in_body = [&](const Graph& body) { return decompose_matmul(body, context); };
  return rewrite(in_bodies(graph, in_body), [&](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (node.op != Op::matmul || context.provided(node)) return {};
    if (is_floating(node.type.dtype)) {
      const Tensor wide =
          build(Op::matmul, {cast(operands[0], DType::f32, node), cast(operands[1], DType::f32, node)}, {}, {}, node);
      if (context.provided(*wide.node())) return cast(wide, node.type.dtype, node);
    }
    return product_and_sum(node, operands[0], operands[1]);
  });
}

Graph widen_scatter_add(const Graph& graph) {
  return rewrite(in_bodies(graph, widen_scatter_add), [](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (node.op != Op::scatter_add || (node.type.dtype != DType::f16 && node.type.dtype != DType::bf16)) return {};
    Type wide = node.type;
    wide.dtype = DType::f32;
    const Tensor updates = cast(operands[1], DType::f32, node);
    return cast(build(Op::scatter_add, {operands[0], updates}, {}, wide, node), node.type.dtype, node);
  });
}

Graph local_collectives(const Graph& graph) {
  return rewrite(in_bodies(graph, local_collectives), [](const Node& node, std::span<const Tensor> operands) -> Tensor {
    return info(node.op).kind == OpKind::collective ? operands[0] : Tensor();
  });
}

}  // namespace weft
