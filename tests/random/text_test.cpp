// The graphs of random programs and their kernels, as text and back.
#include "ir/parse.hpp"

#include "codegen/cpp.hpp"
#include "codegen/cuda.hpp"
#include "loop/parse.hpp"
#include "pipeline.hpp"
#include "providers/provider.hpp"
#include "random/program.hpp"
#include "schedule/schedule.hpp"
#include "tests/ir/support.hpp"

using namespace weft;

namespace {

Graph graph_of(const testing::Program& program) {
  graph_test::Recording r;
  std::vector<Tensor> inputs;
  for (const testing::ProgramInput& input : program.inputs) {
    Shape shape;
    for (const std::int64_t size : input.sizes) shape.push_back(size);
    inputs.push_back(r.input(input.dtype, shape));
  }
  return r.graph(testing::replay(program, inputs));
}
Graph graph_of(std::uint64_t seed) { return graph_of(testing::make_program(seed, 30)); }

}  // namespace

TEST_CASE("text: graphs of random programs read back") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Graph graph = graph_of(seed);
    const std::string text = to_text(graph);
    INFO("seed ", seed, "\n", text);
    const Graph parsed = parse_graph(text);
    REQUIRE(to_text(parsed) == text);
    REQUIRE(structure_text(parsed) == structure_text(graph));
    verify(parsed);
  }
}

TEST_CASE("text: kernels of random programs read back, and give the same sources") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Graph graph = optimize(graph_of(seed), {});
    for (const Step& step : make_schedule(graph, Device::cpu(), providers::all()).steps) {
      if (!step.payload->kernel()) continue;
      loop::Kernel kernel = *step.payload->kernel();
      kernel.comments.clear();
      const std::string text = loop::to_text(kernel);
      INFO("seed ", seed, "\n", text);
      const loop::Kernel parsed = loop::parse_kernel(text);
      loop::verify(parsed);
      REQUIRE(loop::to_text(parsed) == text);
      REQUIRE(codegen::generate_cpp(parsed) == codegen::generate_cpp(kernel));
      REQUIRE(codegen::generate_cuda(parsed).text == codegen::generate_cuda(kernel).text);
    }
  }
}

TEST_CASE("random programs of large sizes have schedules, and their kernels sources") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const testing::Program program = testing::make_large_program(seed, static_cast<int>(10 + seed * 7 % 51));
    INFO(testing::to_text(program));
    Schedule schedule;
    REQUIRE_NOTHROW(schedule = make_schedule(optimize(graph_of(program), {}), Device::cpu(), providers::all()));
    for (const Step& step : schedule.steps)
      if (const loop::Kernel* kernel = step.payload->kernel()) REQUIRE_NOTHROW(codegen::generate_cpp(*kernel));
  }
}
