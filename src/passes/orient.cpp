#include "passes/orient.hpp"

namespace weft {
namespace {

using namespace pattern;

bool swaps_last_two(const Node& permute) {
  int rank = permute.type.shape.rank();
  if (rank < 2) return false;
  for (int i = 0; i < rank; ++i) {
    int expected = i == rank - 2 ? rank - 1 : i == rank - 1 ? rank - 2 : i;
    if (permute.attributes<Permute>().axes[static_cast<std::size_t>(i)] != expected) return false;
  }
  return true;
}
bool transposes_alone(const Match& m) {
  const Tensor& product = m.node.input(0);
  return swaps_last_two(m.node) && product.node()->op == Op::matmul && m.readers(product) == 1;
}
Tensor product_of_transposes(const Match& m) {
  const AxisList& axes = m.node.attributes<Permute>().axes;
  const Tensor first = m.build().permute(m[a], axes), second = m.build().permute(m[b], axes);
  return Builder(*m.operands[0].node()).make(Op::matmul, {second, first}, {}, m.node.type);
}

constexpr Rewrite rows[] = {
    {permute(matmul(a, b)), {"matmul(permute(b), permute(a))", product_of_transposes}, transposes_alone},
};

}  // namespace

constinit const RewriteTable orientation(rows);

Graph orient_matmul(const Graph& graph, const PassContext& context) { return rewrite(graph, orientation, context); }

}  // namespace weft
