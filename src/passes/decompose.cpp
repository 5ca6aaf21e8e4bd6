#include "passes/decompose.hpp"

#include "base/fail.hpp"
#include "ir/convolution.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

// The first two axes as one.
Tensor with_merged_batch(const Builder& build, const Tensor& value) {
  const Shape& from = type_of(value).shape;
  Shape merged;
  merged.push_back(from[0] * from[1]);
  for (int i = 2; i < from.rank(); ++i) merged.push_back(from[i]);
  return build.reshape(value, merged);
}

// [batch, m, k] and [batch, k, n] both as [batch, m, n, k], multiplied and summed over k. 16-bit floats in f32. Sizes
// that are equal only by a guard stay what they are on either side, since a reshape compares counts.
Tensor product_and_sum(const Node& node, Tensor a, Tensor b) {
  const Builder build(node);
  if (node.type.shape.rank() == max_rank) {  // no room for k
    a = with_merged_batch(build, a);
    b = with_merged_batch(build, b);
  }
  const DType dtype = is_floating(node.type.dtype) ? DType::f32 : DType::i64;
  a = build.cast(a, dtype);
  b = build.cast(b, dtype);
  const Shape from_a = type_of(a).shape, from_b = type_of(b).shape;
  const int rank = from_a.rank(), row = rank - 2, column = rank - 1;
  WEFT_CHECK(rank < max_rank, "a product of ", rank, " axes");
  AxisList swap;
  for (int i = 0; i < rank; ++i) swap.push_back(static_cast<std::uint8_t>(i < row ? i : row + column - i));
  b = build.permute(b, swap);
  Shape wide_a, wide_b, full;
  for (int i = 0; i < row; ++i) wide_a.push_back(from_a[i]), wide_b.push_back(from_b[i]), full.push_back(from_a[i]);
  wide_a.push_back(from_a[row]), wide_a.push_back(1), wide_a.push_back(from_a[column]);
  wide_b.push_back(1), wide_b.push_back(from_b[column]), wide_b.push_back(from_b[row]);
  full.push_back(from_a[row]), full.push_back(from_b[column]), full.push_back(from_a[column]);
  a = build.expand(build.reshape(a, wide_a), full);
  b = build.expand(build.reshape(b, wide_b), full);
  AxisSet last;
  last.insert(rank);
  return build.cast(build.reshape(build.sum(build.mul(a, b), last), node.type.shape), node.type.dtype);
}

}  // namespace

Graph decompose_matmul(const Graph& graph, const PassContext& context) {
  const auto in_body = [&](const Graph& body) { return decompose_matmul(body, context); };
  return rewrite(in_bodies(graph, in_body), [&](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (node.op != Op::matmul || context.provided(node)) return {};
    if (is_floating(node.type.dtype)) {
      const Builder build(node);
      const Tensor wide =
          build.make(Op::matmul, {build.cast(operands[0], DType::f32), build.cast(operands[1], DType::f32)});
      if (context.provided(*wide.node())) return build.cast(wide, node.type.dtype);
    }
    return product_and_sum(node, operands[0], operands[1]);
  });
}

Graph decompose_convolution(const Graph& graph, const PassContext& context) {
  const auto in_body = [&](const Graph& body) { return decompose_convolution(body, context); };
  return rewrite(in_bodies(graph, in_body), [&](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (info(node.op).kind != OpKind::convolution || context.provided(node)) return {};
    const Builder build(node);
    DType dtype = node.type.dtype;
    if (dtype == DType::f16 || dtype == DType::bf16) {
      const Type square{dtype, false, node.type.device, Shape::of(16, 16)};
      const Tensor matrix = build.input(0, square);
      if (!context.provided(*build.make(Op::matmul, {matrix, matrix}).node())) dtype = DType::f32;
    }
    const Tensor a = build.cast(operands[0], dtype), b = build.cast(operands[1], dtype);
    const Tensor whole = build.make(node.op, {a, b}, node.attributes(), node.type);
    return build.cast(convolution_by_products(*whole.node(), a, b), node.type.dtype);
  });
}

Graph widen_scatter_add(const Graph& graph) {
  return rewrite(in_bodies(graph, widen_scatter_add), [](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (node.op != Op::scatter_add || (node.type.dtype != DType::f16 && node.type.dtype != DType::bf16)) return {};
    Type wide = node.type;
    wide.dtype = DType::f32;
    const Builder build(node);
    const Tensor updates = build.cast(operands[1], DType::f32);
    return build.cast(build.make(Op::scatter_add, {operands[0], updates}, {}, wide), node.type.dtype);
  });
}

Graph local_collectives(const Graph& graph) {
  return rewrite(in_bodies(graph, local_collectives), [](const Node& node, std::span<const Tensor> operands) -> Tensor {
    return info(node.op).kind == OpKind::collective ? operands[0] : Tensor();
  });
}

}  // namespace weft
