// The graphs of random programs, as text and back.
#include "ir/parse.hpp"
#include "random/program.hpp"
#include "tests/ir/support.hpp"

using namespace weft;

TEST_CASE("text: graphs of random programs read back") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const testing::Program program = testing::make_program(seed, 30);
    graph_test::Recording r;
    std::vector<Tensor> inputs;
    for (const testing::ProgramInput& input : program.inputs) {
      Shape shape;
      for (const std::int64_t size : input.sizes) shape.push_back(size);
      inputs.push_back(r.input(input.dtype, shape));
    }
    const Graph graph = r.graph(testing::replay(program, inputs));
    const std::string text = to_text(graph);
    INFO("seed ", seed, "\n", text);
    const Graph parsed = parse_graph(text);
    REQUIRE(to_text(parsed) == text);
    REQUIRE(structure_text(parsed) == structure_text(graph));
    verify(parsed);
  }
}
