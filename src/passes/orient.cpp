#include "passes/orient.hpp"

#include "base/seeded_bug.hpp"
#include "ir/builder.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

bool swaps_last_two(const Node& permute) {
  int rank = permute.type.shape.rank();
  if (rank < 2) return false;
  for (int i = 0; i < rank; ++i) {
    int expected = i == rank - 2 ? rank - 1 : i == rank - 1 ? rank - 2 : i;
    if (permute.attributes<Permute>().axes[static_cast<std::size_t>(i)] != expected) return false;
  }
  return true;
}

}  // namespace

Graph orient_matmul(const Graph& source) {
  Graph graph = in_bodies(source, orient_matmul);
  std::vector<int> users(graph.nodes.size(), 0);
  for (const Tensor& value : graph.nodes)
    for (const Tensor& operand : value.node()->inputs()) ++users[operand.node()->index];
  for (const Tensor& output : graph.outputs) ++users[output.node()->index];
  return rewrite(graph, [&](const Node& node, std::span<const Tensor> operands) -> Tensor {
    if (node.op != Op::permute || !swaps_last_two(node)) return {};
    const Node& product = *node.input(0).node();
    if (product.op != Op::matmul || users[product.index] != 1) return {};
    const Node& mapped = *operands[0].node();
    Tensor a = Builder(node).make(Op::permute, {mapped.input(0)}, node.attributes());
    Tensor b = Builder(node).make(Op::permute, {mapped.input(1)}, node.attributes());
    if (seeded(SeededBug::product_oriented_without_swap)) std::swap(a, b);
    return Builder(product).make(Op::matmul, {b, a});
  });
}

}  // namespace weft
