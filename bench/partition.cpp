// partition NODES BUDGET: processor seconds of one partition of a joint graph of so many nodes: the layers of a transformer's
// feed-forward part, all of whose values the derivative reads.
#include "ir/partition.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "ir/builder.hpp"

int main(int count, char** arguments) {
  using namespace weft;
  const std::size_t nodes = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10000;
  const double budget = count > 2 ? std::strtod(arguments[2], nullptr) : 1;
  const Builder build({}, 0, 1);
  const auto type = [](std::int64_t rows, std::int64_t columns) {
    Type made;
    made.shape = Shape::of(rows, columns);
    return made;
  };
  std::vector<Tensor> inputs{build.input(0, type(1024, 384)), build.input(1, type(384, 1536)),
                             build.input(2, type(1536, 384))};
  Tensor x = inputs[0];
  for (std::size_t made = 3; made + 8 <= nodes; made += 8) {
    const Tensor wide = build.make(Op::matmul, {x, inputs[1]});
    const Tensor inner = build.make(Op::tanh, {build.mul(wide, build.mul(wide, wide))});
    const Tensor narrow = build.make(Op::matmul, {build.mul(inner, wide), inputs[2]});
    x = build.add(x, build.make(Op::sin, {narrow}));
  }
  const Graph graph = make_graph(inputs, {x}, {});
  const ForwardReads reads{graph.nodes, {}};
  const std::clock_t begin = std::clock();
  const std::size_t saved = partition(graph, reads, budget).size();
  std::printf("%.6f %zu %zu\n", static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, graph.nodes.size(), saved);
}
