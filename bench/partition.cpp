// partition NODES BUDGET [step]: processor seconds of one partition of a joint graph of so many nodes: the layers of a
// transformer's feed-forward part, all of whose values the derivative reads. With `step`: of the pass rematerialize on
// a training step of about so many nodes, plans included.
#include "ir/partition.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "ir/builder.hpp"
#include "pipeline.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"

namespace {

using namespace weft;

double seconds_since(std::clock_t begin) { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; }

// Layers of norm, product, GELU and product, with updates of their weights.
void time_step(std::size_t nodes, double budget) {
  constexpr std::int64_t rows = 256, width = 64, wide = 256;
  constexpr std::size_t nodes_of_layer = 62;
  test::Traced traced;
  const Tensor x = traced.f32(rows, width);
  std::vector<Tensor> weights;
  for (std::size_t layer = 0; layer < nodes / nodes_of_layer; ++layer) {
    weights.push_back(traced.f32(width, wide));
    weights.push_back(traced.f32(wide, width));
  }
  const auto [loss, slopes] = value_and_grad(
      [&](const std::vector<Tensor>& weights) {
        Tensor y = x;
        for (std::size_t i = 0; i < weights.size(); i += 2)
          y = y + matmul(gelu(matmul(nn::layer_norm(y, {width}), weights[i])), weights[i + 1]);
        return mean(square(y));
      },
      weights);
  PipelineOptions options;
  options.memory_budget = budget;
  std::vector<Tensor> outputs{loss};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    options.updates.push_back({static_cast<int>(i) + 1, static_cast<int>(outputs.size())});
    outputs.push_back(weights[i] - 0.1f * slopes[i]);
  }
  double seconds = 0;
  std::size_t before = 0, after = 0;
  std::clock_t begin = std::clock();
  options.after = [&](const StageView& stage) {
    if (std::string_view(stage.stage) == "rematerialize")
      seconds = seconds_since(begin), after = stage.graph.nodes.size();
    else if (seconds == 0)
      before = stage.graph.nodes.size();
    begin = std::clock();
  };
  optimize(traced.graph(outputs), options);
  std::printf("%.6f %zu %zu\n", seconds, before, after);
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t nodes = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10000;
  const double budget = count > 2 ? std::strtod(arguments[2], nullptr) : 1;
  if (count > 3) return time_step(nodes, budget), 0;
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
  std::printf("%.6f %zu %zu\n", seconds_since(begin), graph.nodes.size(), saved);
}
