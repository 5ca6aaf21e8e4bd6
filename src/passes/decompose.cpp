#include "passes/decompose.hpp"

#include "base/fail.hpp"

namespace weft {
namespace {

using namespace pattern;

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
Tensor product_and_sum(const Match& m) {
  const Node& node = m.node;
  const Builder build(node);
  Tensor left = m[a], right = m[b];
  if (node.type.shape.rank() == max_rank) {  // no room for k
    left = with_merged_batch(build, left);
    right = with_merged_batch(build, right);
  }
  const DType dtype = is_floating(node.type.dtype) ? DType::f32 : DType::i64;
  left = build.cast(left, dtype);
  right = build.cast(right, dtype);
  const Shape from_a = type_of(left).shape, from_b = type_of(right).shape;
  const int rank = from_a.rank(), row = rank - 2, column = rank - 1;
  WEFT_CHECK(rank < max_rank, "a product of ", rank, " axes");
  AxisList swap;
  for (int i = 0; i < rank; ++i) swap.push_back(static_cast<std::uint8_t>(i < row ? i : row + column - i));
  right = build.permute(right, swap);
  Shape wide_a, wide_b, full;
  for (int i = 0; i < row; ++i) wide_a.push_back(from_a[i]), wide_b.push_back(from_b[i]), full.push_back(from_a[i]);
  wide_a.push_back(from_a[row]), wide_a.push_back(1), wide_a.push_back(from_a[column]);
  wide_b.push_back(1), wide_b.push_back(from_b[column]), wide_b.push_back(from_b[row]);
  full.push_back(from_a[row]), full.push_back(from_b[column]), full.push_back(from_a[column]);
  left = build.expand(build.reshape(left, wide_a), full);
  right = build.expand(build.reshape(right, wide_b), full);
  AxisSet last;
  last.insert(rank);
  return build.cast(build.reshape(build.sum(build.mul(left, right), last), node.type.shape), node.type.dtype);
}

bool is_not_provided(const Match& m) { return !m.context.provides(m.node); }

Tensor product_in_f32(const Match& m) {
  const Builder build = m.build();
  return build.make(Op::matmul, {build.cast(m[a], DType::f32), build.cast(m[b], DType::f32)});
}
bool is_provided_in_f32(const Match& m) {
  return is_not_provided(m) && is_floating(m.node.type.dtype) && m.context.provides(*product_in_f32(m).node());
}
Tensor rounded_product(const Match& m) { return m.build().cast(product_in_f32(m), m.node.type.dtype); }

bool is_of_16_bits(const Match& m) { return is_floating(m.node.type.dtype) && info(m.node.type.dtype).bits == 16; }
Tensor rounded_scatter(const Match& m) {
  Type wide = m.node.type;
  wide.dtype = DType::f32;
  const Tensor rows = m.build().cast(m[b], DType::f32);
  return m.build().cast(m.build().make(Op::scatter_add, {m[a], rows}, {}, wide), m.node.type.dtype);
}

constexpr Rewrite product_rows[] = {
    {matmul(a, b), {"cast(matmul(cast(a), cast(b)))", rounded_product}, is_provided_in_f32},
    {matmul(a, b), {"sum(mul(a, b))", product_and_sum}, is_not_provided},
};
constexpr Rewrite scatter_rows[] = {
    {scatter_add(a, b), {"cast(scatter_add(a, cast(b)))", rounded_scatter}, is_of_16_bits},
};
constexpr Rewrite collective_rows[] = {
    {all_reduce_start(x), x},
    {all_reduce_wait(x), x},
};

}  // namespace

constinit const RewriteTable products(product_rows);
constinit const RewriteTable wide_scatters(scatter_rows);
constinit const RewriteTable group_of_one(collective_rows);

Graph decompose_matmul(const Graph& graph, const PassContext& context) { return rewrite(graph, products, context); }
Graph widen_scatter_add(const Graph& graph, const PassContext& context) {
  return rewrite(graph, wide_scatters, context);
}
Graph local_collectives(const Graph& graph, const PassContext& context) {
  return rewrite(graph, group_of_one, context);
}

}  // namespace weft
