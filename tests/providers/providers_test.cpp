// Who does a step: what is taken on which device, which operands are put in order first, and that the schedule takes
// whatever a provider offers.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/options.hpp"
#include "passes/decompose.hpp"
#include "passes/regions.hpp"
#include "providers/measured.hpp"
#include "providers/product.hpp"
#include "providers/provider.hpp"
#include "record/composite.hpp"
#include "record/record.hpp"
#include "runtime/host/cblas.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/plan.hpp"
#include "schedule/schedule.hpp"
#include "weft/nn.hpp"

using namespace weft;

namespace {

class Recording {
 public:
  Recording() : scope_(trace_) {}
  Tensor input(DType dtype, Sizes sizes) {
    Type type{dtype, false, {}, sizes.shape()};
    trace_.inputs.push_back(
        record(Op::input, {}, Parameter{static_cast<std::int64_t>(trace_.inputs.size())}, type, {}));
    return trace_.inputs.back();
  }
  Graph graph(std::vector<Tensor> outputs) { return make_graph(trace_.inputs, std::move(outputs), trace_.effects); }

 private:
  Trace trace_{.id = new_trace_id()};
  TraceScope scope_;
};

Graph decomposed(const Graph& graph, Device device) {
  return decompose_matmul(graph, {device, [device](const Node& node) { return providers::all().takes(node, device); }});
}
std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> result;
  for (const Tensor& value : graph.nodes) result.push_back(info(value.node()->op).name);
  return result;
}
std::vector<std::string> steps(const Graph& graph, Device device) {
  std::vector<std::string> result;
  for (const Step& step : make_schedule(graph, device, providers::all()).steps)
    result.push_back(step.payload->kernel() ? "kernel" : step.name);
  return result;
}

using Names = std::vector<std::string>;
const Device host = Device::cpu(), gpu = Device::cuda();

}  // namespace

TEST_CASE(
    "products of 16-bit floats stay on a GPU and are f32 products of casts on the host, integers are taken apart") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Recording r;
    const Graph graph = r.graph({matmul(r.input(dtype, {4, 3}), r.input(dtype, {3, 5}))});
    CHECK(names(decomposed(graph, gpu)) == Names{"input", "input", "matmul"});
    CHECK(names(decomposed(graph, host)) == Names{"input", "input", "cast", "cast", "matmul", "cast"});
  }
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64}) {
    CAPTURE(info(dtype).name);
    Recording r;
    const Graph graph = r.graph({matmul(r.input(dtype, {4, 3}), r.input(dtype, {3, 5}))});
    for (const Device device : {host, gpu}) {
      const Names left = names(decomposed(graph, device));
      CHECK(std::find(left.begin(), left.end(), "matmul") == left.end());
    }
  }
}

TEST_CASE("a matrix times a vector is a kernel of a GPU, where the elements that are added up lie side by side") {
  const auto is_taken_apart = [](auto product, Device device) {
    Recording r;
    const Names left = names(decomposed(r.graph({product(r)}), device));
    return std::find(left.begin(), left.end(), "matmul") == left.end();
  };
  const auto weights = [](Recording& r) { return r.input(DType::bf16, {512, 64}); };
  const auto of_row = [&](Recording& r) { return matmul(r.input(DType::bf16, {1, 64}), transpose(weights(r))); };
  const auto of_column = [&](Recording& r) { return matmul(weights(r), r.input(DType::bf16, {64, 1})); };
  const auto of_one = [&](Recording& r) { return matmul(r.input(DType::bf16, {1, 1, 64}), transpose(weights(r))); };
  CHECK(is_taken_apart(of_row, gpu));
  CHECK(is_taken_apart(of_column, gpu));
  CHECK(is_taken_apart(of_one, gpu));
  CHECK(!is_taken_apart(of_row, host));
  const auto down = [&](Recording& r) { return matmul(r.input(DType::bf16, {1, 512}), weights(r)); };
  const auto of_two = [&](Recording& r) { return matmul(r.input(DType::bf16, {2, 64}), transpose(weights(r))); };
  const auto of_batch = [&](Recording& r) {
    return matmul(r.input(DType::bf16, {3, 1, 64}), transpose(r.input(DType::bf16, {3, 512, 64}), 1, 2));
  };
  CHECK(!is_taken_apart(down, gpu));
  CHECK(!is_taken_apart(of_two, gpu));
  CHECK(!is_taken_apart(of_batch, gpu));
}

TEST_CASE("a bias of a layer is in a GPU's product of sizes that are multiples of 16 bytes, and else after f32 sums") {
  const auto layer = [](Dim in, Dim out) {
    Recording r;
    const Graph graph = r.graph(
        {nn::linear(r.input(DType::bf16, {9, in}), r.input(DType::bf16, {out, in}), r.input(DType::bf16, {out}))});
    const PassContext context{gpu, [](const Node& node) { return providers::all().takes(node, gpu); }};
    return inline_calls(graph, context);
  };
  const auto takes_whole = [&](Dim in, Dim out) {
    const Names left = names(layer(in, out));
    return std::find(left.begin(), left.end(), "call") != left.end();
  };
  CHECK(takes_whole(1024, 1024));
  CHECK(takes_whole(2048, 8));
  for (const auto& [in, out] : {std::pair(1025, 1025), {1024, 1021}, {1001, 512}, {2048, 513}, {1025, 3}}) {
    CAPTURE(in);
    CAPTURE(out);
    REQUIRE(!takes_whole(in, out));
    for (const Tensor& value : layer(in, out).nodes)
      if (value.node()->op == Op::matmul) CHECK(value.node()->type.dtype == DType::f32);
  }
}

TEST_CASE(
    "an operand with two batch axes that no one stride walks is put in order for cuBLASLt, and not for the host") {
  Recording r;
  const Tensor x = r.input(DType::f32, {8, 16, 4, 32}), y = r.input(DType::f32, {8, 4, 32, 16});
  const Graph apart = r.graph({matmul(permute(x, {0, 2, 1, 3}), y)});
  CHECK(steps(apart, host) == Names{"matmul"});
  CHECK(steps(apart, gpu) == Names{"kernel", "matmul"});
  Recording one;
  const Tensor single = one.input(DType::f32, {1, 16, 4, 32}), z = one.input(DType::f32, {1, 4, 32, 16});
  CHECK(steps(one.graph({matmul(permute(single, {0, 2, 1, 3}), z)}), gpu) == Names{"matmul"});
}

TEST_CASE("of two offers the cheaper one is taken, and of a product the schedule says who does it") {
  Recording r;
  const Tensor a = r.input(DType::f32, {1024, 1024}), b = r.input(DType::f32, {1024, 1024}), c = matmul(a, b);
  const Graph graph = r.graph({c});
  const auto placed = [](const Tensor& value, int buffer) { return PlacedValue{type_of(value), buffer, 0, {1024, 1}}; };
  const Candidate candidate{*graph.outputs[0].node(), host, {placed(a, 0), placed(b, 1)}, {placed(c, 2)}};
  const std::optional<Offer> ours = providers::packed_matmul().offer(candidate);
  REQUIRE(ours);
  std::string cheapest = ours->payload->text();
  CHECK(cheapest == " [1024,1024] x [1024,1024]");
  CHECK(ours->payload->by() == "");
  if (providers::onednn_matmul().takes(candidate.node, host)) {
    const std::optional<Offer> library = providers::onednn_matmul().offer(candidate);
    REQUIRE(library);
    CHECK(library->payload->by().starts_with("oneDNN 2."));
    CHECK(library->payload->text() == cheapest + " by " + library->payload->by());
    if (library->rank.constant() < ours->rank.constant()) cheapest = library->payload->text();
  }
  if (providers::cblas_matmul().takes(candidate.node, host))  // WEFT_CBLAS=1
    cheapest = providers::cblas_matmul().offer(candidate)->payload->text();
  CHECK(providers::all().best(candidate).payload->text() == cheapest);
  CHECK(make_schedule(graph, host, providers::all()).steps[0].payload->text() == cheapest);
}

TEST_CASE("a product of a constant, or of what is made of constants alone, is ours: it is packed once") {
  const ProcessOptions before = options();
  options().cblas = 0;
  Recording r;
  const Tensor x = r.input(DType::f32, {1024, 1024}), w = r.input(DType::f32, {1024, 1024}),
               s = r.input(DType::f32, {1024});
  const Graph plain = r.graph({matmul(x, permute(w, {1, 0}))});
  const auto by = [](const Graph& graph, std::vector<int> constants) {
    return make_schedule(graph, host, providers::all(), {}, constants).steps.back().payload->by();
  };
  CHECK(by(plain, {1}) == "");
  const bool has_library = providers::onednn_matmul().takes(*plain.outputs[0].node(), host);
  CHECK(by(plain, {}).starts_with("oneDNN") == has_library);
  CHECK(by(plain, {}) == by(plain, {2}));
  const Graph scaled = r.graph({matmul(x, mul(w, s))});
  CHECK(by(scaled, {1, 2}) == "");
  CHECK(by(scaled, {1}) == by(scaled, {}));
  options() = before;
}

TEST_CASE("oneDNN gets no small product, none of other dtypes, and none on a CPU with fewer instructions") {
  Recording r;
  const auto takes = [&](DType dtype, std::int64_t size) {
    const Tensor product = matmul(r.input(dtype, {size, size}), r.input(dtype, {size, size}));
    return providers::onednn_matmul().takes(*product.node(), host);
  };
  CHECK_FALSE(takes(DType::f32, 64));
  CHECK_FALSE(takes(DType::bf16, 64));
  CHECK_FALSE(takes(DType::f64, 1024));
  CHECK_FALSE(takes(DType::f16, 1024));
  CHECK_FALSE(takes(DType::i64, 1024));
  options().isa = "avx2";  // of a wider CPU too: what it then does is what the rest of the library may do
  CHECK_FALSE(takes(DType::f32, 1024));
  options().isa.clear();
}

TEST_CASE(
    "CBLAS gets deep products of few rows, every larger one where it is asked for, and none where it is left out") {
  const ProcessOptions before = options();
  options().isa.clear();
  options().cblas = 1;
  const bool installed = runtime::cblas::library() != nullptr;
  if (!installed) MESSAGE("no CBLAS library that can be used is installed");
  Recording r;
  const auto product = [&](DType dtype, std::int64_t m, std::int64_t k, std::int64_t n) {
    return matmul(r.input(dtype, {m, k}), r.input(dtype, {k, n}));
  };
  const auto takes = [&](const Tensor& product) { return providers::cblas_matmul().takes(*product.node(), host); };
  const bool measured = installed && runtime::cblas::library()->is_measured && host_isa() == Isa::avx2;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor deep = product(dtype, 64, 4096, 512), square = product(dtype, 256, 256, 256),
                 small = product(dtype, 32, 32, 32);
    for (const int asked : {-1, 0, 1}) {
      options().cblas = asked;
      CHECK(takes(deep) == (asked == 1 ? installed : asked == -1 && measured));
      CHECK(takes(square) == (asked == 1 && installed));
      CHECK_FALSE(takes(small));
      if (!takes(deep)) continue;
      for (const bool by_rows : {true, false}) {
        PlacedValue a{type_of(deep.node()->operands[0]), 0, 0, {4096, 1}};
        if (!by_rows) a.strides = {1, 64};
        const Candidate candidate{*deep.node(),
                                  host,
                                  {a, {type_of(deep.node()->operands[1]), 1, 0, {512, 1}}},
                                  {{type_of(deep), 2, 0, {512, 1}}}};
        CHECK(providers::cblas_matmul().offer(candidate).has_value() == (by_rows || asked == 1));
      }
    }
    CHECK_FALSE(providers::cblas_matmul().takes(*square.node(), gpu));
    const std::string text = make_schedule(r.graph({square}), host, providers::all()).steps[0].payload->text();
    CHECK(text.starts_with(" [256,256] x [256,256]"));
    if (installed) CHECK(text.ends_with(" by " + runtime::cblas::library()->name));
  }
  CHECK_FALSE(takes(product(DType::i64, 256, 256, 256)));
  CHECK_FALSE(takes(product(DType::f16, 256, 256, 256)));
  options() = before;
}

namespace {

// Offers everything, and writes 7 whatever it is asked for.
struct Nothing final : runtime::Runnable {
  void run(const runtime::StepCall& call) const override { *static_cast<float*>(call.pointers[1]) = 7; }
};
struct Idle final : Payload {
  std::string details() const override { return " idle"; }
  loop::Cost cost() const override { return {4, 1}; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override {
    return std::make_unique<Nothing>();
  }
};
struct Idlers final : Providers {
  bool takes(const Node&, Device) const override { return true; }
  bool reads(const Node&, Device, const Shape&, Dim, std::span<const Dim>) const override { return true; }
  bool writes_in_any_order(const Node&, Device) const override { return false; }
  Offer best(const Candidate& candidate) const override {
    seen.push_back(candidate.buffers());
    return {1, std::make_shared<Idle>()};
  }
  std::shared_ptr<Payload> generated(std::vector<loop::Kernel>) const override { return std::make_shared<Idle>(); }
  std::size_t most_sets(const loop::Kernel&, Device) const override { return 1; }
  mutable std::vector<std::vector<int>> seen;
};

}  // namespace

TEST_CASE("the schedule and the plan take what a provider offers, whatever it is") {
  Recording r;
  const Tensor x = r.input(DType::f32, {3, 3});
  const Idlers idlers;
  const Schedule schedule = make_schedule(r.graph({matmul(x, x)}), host, idlers);
  REQUIRE(schedule.steps.size() == 1);
  CHECK(idlers.seen == std::vector<std::vector<int>>{{0, 0, 1}});
  CHECK(to_text(schedule).find("matmul 0 0 1 idle\n") != std::string::npos);

  runtime::Plan plan;
  plan.argument_count = plan.result_count = 1;
  plan.buffers = {{runtime::PlanBuffer::Kind::argument, 0, DType::f32, 9, 0},
                  {runtime::PlanBuffer::Kind::result, 0, DType::f32, 9, 0}};
  plan.launches = {{"idle", {0, 1}, {}, schedule.steps[0].payload}};
  runtime::prepare(plan);
  float from = 0, to = 0;
  void *const arguments[] = {&from}, *const results[] = {&to};
  runtime::run(plan, arguments, results, {});
  CHECK(to == 7);
}

TEST_CASE("a composite that somebody takes is one step, and says its axis without its body") {
  Recording r;
  const Tensor x = r.input(DType::f32, {3, 5});
  const auto takes = [](const Node& node) { return node.op == Op::call; };
  const Graph graph = inline_calls(r.graph({softmax(exp(x), 1)}), {host, takes});
  const Idlers idlers;
  const Schedule schedule = make_schedule(graph, host, idlers);
  REQUIRE(schedule.steps.size() == 2);
  CHECK(schedule.steps[1].name == "softmax");
  CHECK(idlers.seen == std::vector<std::vector<int>>{{1, 2}});
  const auto& called = graph.nodes.back().node()->attributes<ReducedCall>();
  CHECK(called.axes[1]);
  CHECK_FALSE(called.axes[0]);
}

namespace {

// A call of two results of different dtypes: the sum of rows in f64, and their greatest element.
struct RowNumbers final : runtime::Runnable {
  void run(const runtime::StepCall& call) const override {
    const auto* from = static_cast<const float*>(call.pointers[0]);
    for (int row = 0; row < 2; ++row, from += 3) {
      static_cast<double*>(call.pointers[1])[row] = double{from[0]} + from[1] + from[2];
      static_cast<float*>(call.pointers[2])[row] = std::max({from[0], from[1], from[2]});
    }
  }
};
struct RowPayload final : Payload {
  std::string details() const override { return {}; }
  loop::Cost cost() const override { return {48, 12}; }
  std::vector<bool> writes(std::size_t) const override { return {false, true, true}; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override {
    return std::make_unique<RowNumbers>();
  }
};
struct RowProviders final : Providers {
  bool takes(const Node&, Device) const override { return true; }
  bool reads(const Node&, Device, const Shape&, Dim, std::span<const Dim>) const override { return true; }
  bool writes_in_any_order(const Node&, Device) const override { return false; }
  Offer best(const Candidate& candidate) const override {
    CHECK(candidate.results.size() == 2);
    CHECK(candidate.results[0].type.dtype == DType::f64);
    CHECK(candidate.results[1].type.dtype == DType::f32);
    return {1, std::make_shared<RowPayload>()};
  }
  std::shared_ptr<Payload> generated(std::vector<loop::Kernel> kernels) const override {
    return providers::all().generated(std::move(kernels));
  }
  std::size_t most_sets(const loop::Kernel&, Device) const override { return 1; }
};
std::vector<Tensor> row_numbers(const Tensor& x) {
  Tensor operands[] = {x};
  std::vector<Tensor> results(2);
  composite(called("row_numbers"), operands, results, {}, [](std::span<const Tensor> inputs, std::span<Tensor> made) {
    made[0] = sum(cast(inputs[0], DType::f64), 1);
    made[1] = amax(inputs[0], 1);
  });
  return results;
}

}  // namespace

TEST_CASE("a call of several results that somebody takes is one step, and each result has its own memory") {
  const auto schedule_of = [](auto outputs_of) {
    Recording r;
    const Tensor x = r.input(DType::f32, {2, 3});
    const auto takes = [](const Node& node) { return node.op == Op::call; };
    return make_schedule(inline_calls(r.graph(outputs_of(row_numbers(exp(x)))), {host, takes}), host, RowProviders());
  };
  using Values = std::vector<Tensor>;
  SUBCASE("both are results of the graph") {
    const Schedule schedule = schedule_of([](const Values& both) { return Values{both[1], both[0]}; });
    REQUIRE(schedule.steps.size() == 2);
    CHECK(schedule.steps[1].name == "row_numbers");
    runtime::Plan plan;
    plan.argument_count = 1, plan.result_count = 2;
    for (const int b : schedule.steps[1].buffers) {
      const ScheduleBuffer& buffer = schedule.buffers[static_cast<std::size_t>(b)];
      const bool result = buffer.kind == ScheduleBuffer::Kind::result;
      plan.buffers.push_back({result ? runtime::PlanBuffer::Kind::result : runtime::PlanBuffer::Kind::argument,
                              result ? buffer.index : 0, buffer.dtype, buffer.elements, 0});
    }
    plan.launches = {{"row_numbers", {0, 1, 2}, {}, schedule.steps[1].payload}};
    runtime::prepare(plan);
    const float from[] = {1, 5, 2, -3, -4, -9};
    float greatest[2] = {};
    double sums[2] = {};
    void *const arguments[] = {const_cast<float*>(from)}, *const results[] = {greatest, sums};
    runtime::run(plan, arguments, results, {});
    CHECK((greatest[0] == 5 && greatest[1] == -3));
    CHECK((sums[0] == 8 && sums[1] == -16));
  }
  SUBCASE("a kernel reads the second, nobody the first") {
    const Schedule schedule = schedule_of([](const Values& both) { return Values{both[1] * 2}; });
    REQUIRE(schedule.steps.size() == 3);
    const std::vector<int>& step = schedule.steps[1].buffers;
    REQUIRE(step.size() == 3);
    CHECK(std::set(step.begin(), step.end()).size() == 3);
    const ScheduleBuffer& unread = schedule.buffers[static_cast<std::size_t>(step[1])];
    CHECK((unread.kind == ScheduleBuffer::Kind::temporary && unread.dtype == DType::f64));
    CHECK(schedule.steps[2].buffers[0] == step[2]);
    CHECK(schedule.steps[2].payload->kernel()->buffers[0].dtype == DType::f32);
  }
  SUBCASE("what reads both, one of them through a view, waits for the step") {
    const Schedule schedule = schedule_of([](const Values& both) {
      return Values{cast(reshape(both[0], {1, 2}), DType::f32) - reshape(both[1], {2, 1})};
    });
    REQUIRE(schedule.steps.size() == 3);
    CHECK(schedule.steps[2].buffers.size() == 3);
  }
}

namespace {

// Takes a while, and says how often it was run.
class Slow final : public Payload {
 public:
  Slow(std::string name, int milliseconds, int& runs)
      : name_(std::move(name)), milliseconds_(milliseconds), runs_(runs) {}
  std::string details() const override { return name_; }
  loop::Cost cost() const override { return {}; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override {
    return std::make_unique<Run>(milliseconds_, runs_);
  }

 private:
  struct Run final : runtime::Runnable {
    Run(int milliseconds, int& runs) : milliseconds(milliseconds), runs(runs) {}
    void run(const runtime::StepCall& call) const override {
      CHECK(static_cast<const float*>(call.pointers[0])[5] == 1);
      CHECK(static_cast<const float*>(call.pointers[1])[0] == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      ++runs;
    }
    int milliseconds;
    int& runs;
  };
  std::string name_;
  int milliseconds_;
  int& runs_;
};

}  // namespace

TEST_CASE(
    "where time is measured, the faster of two offers is taken, once in a process; what is not known is not run") {
  int slow = 0, fast = 0;
  const Offer offers[] = {{Dim(1), std::make_shared<Slow>("slow", 3, slow)},
                          {Dim(2), std::make_shared<Slow>("fast", 0, fast)}};
  Recording r;
  const Tensor x = r.input(DType::f32, {2, 3}), y = exp(x);
  const PlacedValue operand{type_of(x), 0, 0, {3, 1}}, result{type_of(y), 1, 0, {3, 1}};
  const Candidate candidate{*y.node(), host, {operand}, {result}};
  REQUIRE(providers::fastest(candidate, offers).has_value());
  CHECK(*providers::fastest(candidate, offers) == 1);
  const int runs = fast;
  CHECK(slow > 0);
  CHECK(*providers::fastest(candidate, offers) == 1);
  CHECK(fast == runs);

  const Candidate elsewhere{*y.node(), gpu, {operand}, {result}};
  CHECK(!providers::fastest(elsewhere, offers));
  PlacedValue unknown = operand;
  unknown.strides[0] = dims::symbol(0);
  CHECK(!providers::fastest({*y.node(), host, {unknown}, {result}}, offers));
}
