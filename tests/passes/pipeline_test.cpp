// The list of passes: named, in order, timed, left out by name, and verified after each.
#include "pipeline.hpp"

#include <algorithm>
#include <thread>

#include "interpret/reference.hpp"
#include "schedule/schedule.hpp"
#include "tests/ir/support.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using namespace graph_test;
using weft::test::CaptureLog;
using weft::test::KeepVariable;

namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<StageReport>& reports) {
  Names names;
  for (const StageReport& report : reports) names.push_back(report.name);
  return names;
}

// Something for each pass to do: a call, constants to fold, an addition of nothing, equal parts, a transposed product,
// a check that is proved.
Graph work(Recording& r) {
  auto product = [] {
    Recording inner;
    Tensor a = inner.x(), b = inner.x();
    return std::make_shared<const Graph>(inner.graph({a * b}));
  };
  Tensor x = r.x(), y = r.x();
  record(Op::check, {full({}, 1, {.dtype = DType::boolean})}, Message{}, {}, {});
  Tensor two = full({2, 3}, 1) + full({2, 3}, 1);
  return r.graph({transpose(matmul(x, transpose(y))), call(product(), x, y) * two + (x - full({2, 3}, 0)) + x * y});
}

const Names every_pass = {
    "fuse_attention",    "merge_loops",           "inline_calls",     "place_gathers",     "fold_constants",
    "simplify_algebra",  "common_subexpressions", "fold_batch_norm",  "orient_matmul",     "simplify_algebra",
    "rematerialize",     "decompose_convolution", "decompose_matmul", "decompose_argsort", "widen_scatter_add",
    "local_collectives", "align_products",        "dead_code",        "prune_loops"};

}  // namespace

TEST_CASE("passes have names and run in order; each can be left out but for those that the rest needs") {
  Recording r;
  const Graph graph = work(r);
  std::vector<Literal> values(2);
  for (Literal& value : values) value = {graph.inputs[0].node()->type, {1, 2, 3, 4, 5, -6}};
  const std::vector<Literal> expected = interpret(graph, values, {});
  std::vector<StageReport> reports;
  const std::string whole = structure_text(optimize(graph, {}, &reports));
  CHECK(names_of(reports) == every_pass);
  for (const std::string name :
       {"fold_constants", "simplify_algebra", "common_subexpressions", "orient_matmul", "dead_code"}) {
    CAPTURE(name);
    Names rest = every_pass;
    std::erase(rest, name);
    reports.clear();
    const Graph result = optimize(graph, {.verify = true, .skip = {name}}, &reports);
    CHECK(names_of(reports) == rest);
    CHECK(structure_text(result) != whole);
    const std::vector<Literal> found = interpret(result, values, {});
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i].reals == expected[i].reals);
  }
}

TEST_CASE("what watches a compilation is called after each stage, with what that left" *
          test::needs(test::a_compiler)) {
  const Names stages = {"schedule", "memory", "generate", "compile", "launches"};
  Recording r;
  Names names;
  PipelineOptions options;
  options.keep = true;
  options.after = [&](const StageView& view) {
    const std::string stage = view.stage;
    names.push_back(stage);
    const bool is_pass = std::ranges::find(stages, stage) == stages.end();
    CHECK((view.schedule == nullptr) == is_pass);
    if (stage == "dead_code") CHECK(view.graph.effects.empty());
    if (stage == "schedule") CHECK(view.schedule->arena_bytes.same(Dim(0)));
    if (stage == "memory") CHECK_FALSE(view.schedule->arena_bytes.same(Dim(0)));
    CHECK(view.executable.plan.launches.empty() == (stage != "launches"));
  };
  Tensor x = r.x(), y = r.x();
  record(Op::check, {full({}, 1, {.dtype = DType::boolean})}, Message{}, {}, {});
  const auto executable = compile_graph(r.graph({matmul(exp(x), transpose(y))}), options);
  Names all = every_pass;
  all.insert(all.end(), stages.begin(), stages.end());
  CHECK(names == all);
  CHECK(names_of(executable->stages) == all);
  const auto schedule = std::ranges::find(executable->stages, std::string("schedule"), &StageReport::name);
  REQUIRE(schedule != executable->stages.end());
  CHECK(schedule->size == executable->plan.launches.size());
  CHECK(texts_of(*executable).kernels.size() == 1);
}

TEST_CASE("of graphs that are compiled apart each reports every stage once; they are compiled at once" *
          test::needs(test::a_compiler)) {
  std::vector<Graph> graphs;
  for (const double factor : {2.0, 3.0}) {
    Recording r;
    graphs.push_back(r.graph({exp(r.x()) * factor}));
  }
  PipelineOptions options;
  options.apart = true;
  const auto all = compile_graphs(std::move(graphs), options);
  REQUIRE(all.size() == 2);
  CHECK(all[0]->plan.source_path != all[1]->plan.source_path);
  std::vector<double> milliseconds;
  for (const auto& executable : all) {
    Names names = every_pass;
    names.insert(names.end(), {"schedule", "memory", "generate", "compile", "launches"});
    CHECK(names_of(executable->stages) == names);
    milliseconds.push_back(
        std::ranges::find(executable->stages, std::string("compile"), &StageReport::name)->milliseconds);
  }
  CHECK(milliseconds[0] == milliseconds[1]);
}

TEST_CASE("texts are made of what was kept, as often as they are asked for, from any thread" *
          test::needs(test::a_compiler)) {
  const auto compiled = [](const PipelineOptions& options) {
    Recording r;
    Tensor x = r.x();
    return compile_graph(r.graph({x * 1 + exp(x)}), options);
  };
  PipelineOptions keep;
  keep.keep = true;
  const auto executable = compiled(keep);
  const Texts first = texts_of(*executable);
  CHECK(first.traced.find("mul(") != std::string::npos);
  CHECK(first.optimized.find("mul(") == std::string::npos);
  REQUIRE(first.kernels.size() == 1);
  CHECK(first.kernels[0].name == executable->plan.launches[0].name);
  CHECK(first.kernels[0].source.find("void " + first.kernels[0].name + "(") != std::string::npos);
  std::vector<std::thread> threads;
  std::vector<Texts> again(4);
  for (Texts& texts : again) threads.emplace_back([&] { texts = texts_of(*executable); });
  for (std::thread& thread : threads) thread.join();
  for (const Texts& texts : again) {
    CHECK(texts.traced == first.traced);
    CHECK(texts.optimized == first.optimized);
    CHECK(texts.schedule == first.schedule);
    CHECK(texts.kernels[0].source == first.kernels[0].source);
  }
  CHECK_THROWS_WITH_AS(texts_of(*compiled({})), doctest::Contains("did not keep"), InternalError);
}

TEST_CASE("WEFT_SKIP_PASSES: a name that can't be left out is answered with those that can") {
  const weft::test::KeepOptions keep;
  const KeepVariable variable("WEFT_SKIP_PASSES", "fold_constants,inline_calls,dead_cod");
  options() = read_options();
  CaptureLog log;
  Recording r;
  std::vector<StageReport> reports;
  optimize(work(r), {}, &reports);
  Names rest = every_pass;
  std::erase(rest, "fold_constants");
  CHECK(names_of(reports) == rest);
  const std::string those =
      "can be left out; there are: align_products common_subexpressions dead_code fold_batch_norm fold_constants "
      "fuse_attention orient_matmul "
      "place_gathers prune_loops rematerialize simplify_algebra";
  CHECK(log.lines == Names{"[weft] no pass 'inline_calls' " + those, "[weft] no pass 'dead_cod' " + those});
}

TEST_CASE("what a pass leaves is verified, in debug builds unless asked for") {
#ifdef NDEBUG
  CHECK_FALSE(PipelineOptions().verify);
#else
  CHECK(PipelineOptions().verify);
#endif
  // A body that takes two sizes for one, which around it they are not: nobody sees it before the call is inlined.
  const Type s0{DType::f32, false, {}, Shape::of(dims::symbol(0))},
      s1{DType::f32, false, {}, Shape::of(dims::symbol(1))};
  Graph inside;
  {
    Recording inner;
    inner.trace.dims.symbols = {{3}, {3}};
    const Tensor a = inner.input(DType::f32, s0.shape), b = inner.input(DType::f32, s0.shape);
    inside = inner.graph({make_node(Op::neg, std::span(&a, 1), {}, s1, {}), b});
    inside.outputs.pop_back();
  }
  inside.symbols = {{3}, {3}};
  Recording r;
  r.trace.dims.symbols = {{3}, {4}};
  Tensor x = r.input(DType::f32, s0.shape);
  Graph graph = r.graph({call(std::make_shared<const Graph>(inside), x, x)});
  graph.symbols = {{3}, {4}};
  REQUIRE_NOTHROW(verify(graph));
  CHECK_THROWS_WITH_AS(optimize(graph, {.verify = true}), doctest::Contains("neg has type f32[s1], inferred f32[s0]"),
                       InternalError);
  CHECK_NOTHROW(optimize(graph, {.verify = false}));
}
