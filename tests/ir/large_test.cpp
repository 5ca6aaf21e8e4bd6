// Graphs of a million nodes, deep and wide, on a small stack: built, verified, printed, rewritten and freed by loops,
// in time that grows with their size.
#include "interpret/reference.hpp"
#include "ir/graph.hpp"
#include "passes/algebra.hpp"
#include "passes/cse.hpp"
#include "passes/dead_code.hpp"
#include "passes/fold.hpp"
#include "passes/orient.hpp"
#include "passes/regions.hpp"
#include "tests/sanitized.hpp"
#include "tests/small_stack.hpp"

using namespace weft;
using weft::test::on_small_stack;

namespace {

constexpr int many = 1000000 / weft::test::less_when_sanitized;
const Type type{DType::f32, false, {}, Shape::of(1)};

Tensor node(Op op, std::initializer_list<Tensor> operands, const Attributes& attributes = {}) {
  return make_node(op, std::span<const Tensor>(operands.begin(), operands.size()), attributes, type, {"model.cpp", 41});
}
// -(-(-x)): a line.
Graph deep(int size) {
  Tensor x = node(Op::input, {}, Parameter{}), y = x;
  for (int i = 1; i < size; ++i) y = node(Op::neg, {y});
  return make_graph({x}, {y}, {});
}
// Each node is an operand of one of them.
Graph wide(int size) {
  Tensor x = node(Op::input, {}, Parameter{});
  std::vector<Tensor> parts;
  for (int i = 2; i < size; ++i) parts.push_back(node(i % 2 ? Op::neg : Op::exp, {x}));
  Type all = type;
  all.shape = Shape::of(size - 2);
  return make_graph({x}, {make_node(Op::concat, parts, Along{0}, all, {"model.cpp", 42})}, {});
}

}  // namespace

TEST_CASE("a million nodes are verified, printed and freed on a small stack") {
  for (auto make : {deep, wide}) {
    std::size_t nodes = 0, characters = 0;
    on_small_stack([&] {
      Graph graph = make(many);
      verify(graph);
      nodes = graph.nodes.size();
      characters = to_text(graph).size();
    });
    CHECK(nodes == many);
    CHECK(characters > 20 * nodes);
  }
}

TEST_CASE("two hundred thousand nodes go through each pass on a small stack") {
  for (auto make : {deep, wide}) {
    std::size_t left = 0, lines = 0;
    on_small_stack([&] {
      Graph graph = make(many / 5);
      for (auto pass :
           {inline_calls, fold_constants, simplify_algebra, common_subexpressions, orient_matmul, dead_code})
        graph = pass(graph, {});
      verify(graph);
      left = graph.nodes.size();
      lines = structure_text(graph).size() + to_text(graph).size();
    });
    CHECK(left < 10);  // pairs of negations vanish, and equal parts are one
    CHECK(lines > 0);
  }
}
