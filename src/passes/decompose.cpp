#include "passes/decompose.hpp"

#include "base/fail.hpp"
#include "ir/convolution.hpp"
#include "passes/cse.hpp"
#include "passes/regions.hpp"

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

// [batch, m, k] and [batch, k, n] both as [batch, m, n, k], multiplied and summed over k. Sizes
// that are equal only by a guard stay what they are on either side, since a reshape compares counts.
Tensor product_and_sum(const Match& m) {
  const Node& node = m.node;
  const Builder build(node);
  Tensor left = m[a], right = m[b];
  if (node.type.shape.rank() == max_rank) {  // no room for k
    left = with_merged_batch(build, left);
    right = with_merged_batch(build, right);
  }
  const DType dtype = accumulated_in(node.type.dtype);
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

// Operands, of which sums are in their dtype or in f32.
DType dtype_of_operands(const Node& node) { return type_of(node.input(0)).dtype; }
bool is_narrow(DType dtype) { return computed_in(dtype) != dtype; }
bool is_product_of_narrow(const Match& m) { return is_narrow(dtype_of_operands(m.node)); }
bool is_sum_of_narrow(const Match& m) { return is_narrow(m.node.type.dtype); }
Tensor wide_product(const Match& m) {
  const DType wide = computed_in(dtype_of_operands(m.node));
  return m.build().make(Op::matmul, {m.build().cast(m[a], wide), m.build().cast(m[b], wide)});
}
bool is_provided_wide(const Match& m) {
  return is_not_provided(m) && is_product_of_narrow(m) && m.context.provides(*wide_product(m).node());
}
Tensor rounded_product(const Match& m) { return m.build().cast(wide_product(m), m.node.type.dtype); }

template <class Group>
bool is_of_one(const Match& m) {
  return m.node.attributes<Group>().processes == 1;
}

bool is_part_not_provided(const Match& m) {
  return !m.node.attributes<Order>().count.same(Dim(0)) && is_not_provided(m);
}
Tensor slice_of_order(const Match& m) {
  const auto& part = m.node.attributes<Order>();
  const Tensor whole = m.build().make(Op::argsort, {m[x]}, Order{part.descending});
  const auto last = static_cast<std::uint8_t>(type_of(whole).shape.rank() - 1);
  return m.build().slice(whole, Slice{last, part.first}, part.count);
}

Tensor rounded_scatter(const Match& m) {
  Type wide = m.node.type;
  wide.dtype = computed_in(wide.dtype);
  const Tensor rows = m.build().cast(m[b], wide.dtype);
  return m.build().cast(m.build().make(Op::scatter_add, {m[a], rows}, {}, wide), m.node.type.dtype);
}

constexpr Rewrite product_rows[] = {
    {matmul(a, b), {"cast(matmul(cast(a), cast(b)))", rounded_product}, is_provided_wide},
    {matmul(a, b), {"sum(mul(a, b))", product_and_sum}, is_not_provided},
};
constexpr Rewrite order_rows[] = {
    {argsort(x), {"slice(argsort(x))", slice_of_order}, is_part_not_provided},
};
constexpr Rewrite scatter_rows[] = {
    {scatter_add(a, b), {"cast(scatter_add(a, cast(b)))", rounded_scatter}, is_sum_of_narrow},
};
constexpr Rewrite collective_rows[] = {
    {all_reduce_start(x), x, is_of_one<Collective>}, {all_reduce_wait(x), x, is_of_one<Collective>},
    {broadcast(x), x, is_of_one<RootedCollective>},  {reduce_to_root(x), x, is_of_one<RootedCollective>},
    {all_gather(x), x, is_of_one<Collective>},       {reduce_scatter(x), x, is_of_one<Collective>},
};

}  // namespace

constinit const RewriteTable products(product_rows);
constinit const RewriteTable orders(order_rows);
constinit const RewriteTable wide_scatters(scatter_rows);
constinit const RewriteTable group_of_one(collective_rows);

Graph decompose_convolution(const Graph& graph, const PassContext& context) {
  const auto in_body = [&](const Graph& body) { return decompose_convolution(body, context); };
  return rewrite(in_bodies(graph, in_body), [&](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (info(node.op).kind != OpKind::convolution || context.provides(node)) return {};
    const Builder build(node);
    DType dtype = dtype_of_operands(node);
    if (is_narrow(dtype)) {
      Type square{dtype, false, node.type.device, Shape::of(16, 16)};
      const Tensor matrix = build.input(0, square);
      square.dtype = node.type.dtype;
      if (!context.provides(*build.make(Op::matmul, {matrix, matrix}, {}, square).node())) dtype = computed_in(dtype);
    }
    const Tensor a = build.cast(operands[0], dtype), b = build.cast(operands[1], dtype);
    const Tensor whole = build.make(node.op, {a, b}, node.attributes(), node.type);
    return build.cast(convolution_by_products(*whole.node(), a, b), node.type.dtype);
  });
}

// Products with one vector, as those of queries, keys and values, share what it is cast to.
Graph decompose_matmul(const Graph& graph, const PassContext& context) {
  Graph apart = rewrite(graph, products, context);
  return apart.nodes.size() == graph.nodes.size() ? apart : common_subexpressions(apart, context);
}
Graph decompose_argsort(const Graph& graph, const PassContext& context) { return rewrite(graph, orders, context); }
Graph widen_scatter_add(const Graph& graph, const PassContext& context) {
  return rewrite(graph, wide_scatters, context);
}
Graph local_collectives(const Graph& graph, const PassContext& context) {
  return rewrite(graph, group_of_one, context);
}

}  // namespace weft
