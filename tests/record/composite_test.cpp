// Composites are recorded as one call, whose body all calls of a signature share.
#include "record/composite.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "interpret/reference.hpp"
#include "passes/regions.hpp"
#include "record/evaluate.hpp"
#include "tests/ir/support.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/explain.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"
#include "weft/region.hpp"

using namespace weft;
using namespace weft::test;

namespace {

const Node& call_of(const Tensor& value) {
  REQUIRE(value.node()->op == Op::call);
  return *value.node();
}
const Callee* callee_of(const Tensor& value) { return call_of(value).callee(); }
std::size_t calls_in(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(" = call(", at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace

TEST_CASE("a softmax is one node, with its name and axis, over its operand") {
  const Tensor x = ones({4, 5}).eval();
  const Tensor y = softmax(x, -1);
  const auto& called = call_of(y).attributes<ReducedCall>();
  CHECK(interned_text(called.name.id) == "softmax");
  CHECK(called.axes[1]);
  CHECK_FALSE(called.axes[0]);
  CHECK(y.node()->operand_count == 1);
  CHECK(y.node()->input(0).same(x));
  CHECK(y.node()->loc.line == __LINE__ - 7);
}

TEST_CASE("calls of one signature share a body; another axis, size, dtype or number has its own") {
  const Tensor x = ones({4, 4}).eval();
  const Callee* const one = callee_of(softmax(x, 1));
  CHECK(callee_of(softmax(ones({4, 4}).eval(), -1)) == one);
  CHECK(callee_of(softmax(softmax(x, 1), 1)) == one);
  CHECK(callee_of(softmax(x, 0)) != one);
  CHECK(callee_of(softmax(ones({4, 3}), 1)) != one);
  CHECK(callee_of(softmax(cast(x, DType::f64), 1)) != one);
  CHECK(callee_of(log_softmax(x, 1)) != one);
  CHECK(callee_of(var(x, 1, 0)) != callee_of(var(x, 1, 1)));
  CHECK(callee_of(mean(x, 1, true)) != callee_of(mean(x, 1, false)));
  CHECK(callee_of(gelu(x)) == callee_of(gelu(x)));
  CHECK(callee_of(gelu(x)) != callee_of(gelu(x, Gelu::tanh)));
}

TEST_CASE("inside a body a composite is its primitives") {
  const Tensor x = ones({4, 4}).eval();
  for (const Tensor& value : {var(x, 1), nn::cross_entropy(x, full({4}, 1, {.dtype = DType::i64})),
                              nn::layer_norm(x, ones({4}), ones({4})), nn::mse_loss(x, x)})
    for (const Tensor& inside : call_of(value).bodies()[0]->nodes) CHECK(inside.node()->op != Op::call);
}

TEST_CASE("a derivative is one call too, shared, and reads only what it needs") {
  const Tensor x = ones({4, 4}).eval(), y = full({4, 4}, 0.5).eval();
  const auto slope = [&](auto f) { return grad([&](const Tensor& v) { return sum(f(v) * y); }, x); };
  const Tensor one = slope([](const Tensor& v) { return softmax(v, 1); });
  CHECK(std::string(name_of(call_of(one))) == "softmax_backward");
  CHECK(callee_of(slope([](const Tensor& v) { return softmax(v, 1); })) == callee_of(one));
  CHECK(callee_of(slope([](const Tensor& v) { return softmax(v, 0); })) != callee_of(one));
  const Tensor average = slope([](const Tensor& v) { return mean(v, 1, true); });
  CHECK(callee_of(average)->reads == std::vector<std::uint32_t>{2});  // the gradient alone
  // A derivative of its own reads the result of the forward call, which nobody computes again.
  for (const Tensor& value : {one, slope([](const Tensor& v) { return log_softmax(v, 1); })}) {
    CHECK(callee_of(value)->reads == std::vector<std::uint32_t>{1, 2});
    CHECK(value.node()->input(0).node()->op == Op::call);
    CHECK(value.node()->input(0).node()->input(0).node()->op == Op::variable);
  }
}

TEST_CASE("a body is the same whoever asked first: it has no lines and no regions, and its own name") {
  const Tensor x = ones({3, 41}).eval(), y = full({3, 41}, 0.5).eval();
  const auto check = [](const Callee& callee, const char* name) {
    CHECK(std::string(interned_text(called_name(callee.called).id)) == name);
    for (const Tensor& value : callee.body.nodes) {
      const Node& node = *value.node();
      CHECK_MESSAGE(node.loc.file == nullptr, to_text(callee.body));
      CHECK(node.region == 0);
      if (node.op != Op::input) CHECK(std::string(interned_text(node.scope)) == name);
    }
  };
  std::vector<Tensor> made;
  const auto part = region("part", [&](const Tensor& x) {
    made.push_back(softmax(x, -1));
    return sum(made[0] * y);
  });
  const Tensor slope = grad(part, x);
  check(*callee_of(made[0]), "softmax");
  check(*callee_of(slope), "softmax_backward");
  const Tensor of_mean = grad([&](const Tensor& x) { return sum(mean(x, 1, true) * y); }, x);
  check(*callee_of(of_mean), "mean_backward");
}

TEST_CASE("errors in a body name the user's call and line, each time") {
  const Tensor x = ones({4, 4}), whole = ones({4, 4}, {.dtype = DType::i64});
  for (int i = 0; i < 2; ++i) {
    refused([&] { mean(whole, 1); }, "[mean] needs a floating dtype, it is i64[4,4]");
    refused([&] { var(x, {1, -1}); }, "[var] axis 1 is named twice");
    refused([&] { softmax(x, 2); }, "[softmax] axis 2 is out of range for 2 axes");
    refused([&] { nn::layer_norm(x, ones({3}), ones({4})); }, "[layer_norm] takes a floating tensor [..., n]");
  }
}

TEST_CASE("threads that record one signature share its body") {
  const Tensor x = ones({7, 11}).eval();
  std::vector<Tensor> results(8);
  std::vector<std::thread> threads;
  for (Tensor& result : results)
    threads.emplace_back([&result, &x] {
      for (int i = 0; i < 50; ++i) {
        result = logsumexp(x, 1) + grad([](const Tensor& v) { return sum(logsumexp(v, 1)); }, x).size(0);
        result.eval();
      }
    });
  for (std::thread& thread : threads) thread.join();
  const Callee* const shared = callee_of(logsumexp(x, 1));
  CHECK(shared == callee_of(logsumexp(x, 1)));
  for (const Tensor& result : results) CHECK(result.data<float>()[6] == results[0].data<float>()[6]);
}

TEST_CASE("in a trace of symbolic sizes a body belongs to the trace, with the guards that it needs") {
  auto f = compile([](const Tensor& x) { return softmax(softmax(x, -1), -1) + mean(x, -1, true); },
                   {.dynamic = true, .backend = Backend::eager});
  const Tensor x = normal({4, 6}, 0, 1), wide = normal({9, 17}, 0, 1);
  const Explanation what = explain(f, x);
  CHECK(calls_in(what.graph) == 3);
  for (const Tensor& value : {x, wide})
    CHECK(amax(abs(f(value) - (softmax(softmax(value, -1), -1) + mean(value, -1, true)))).item() == 0);
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("a call is inlined at its own place: line and name are the call's, the body's nodes are copied") {
  graph_test::Recording r;
  const Tensor x = r.input(DType::f32, Shape::of(2, 3));
  const Tensor first = softmax(x, 1);
  const Tensor second = softmax(first, 1);
  const int line = __LINE__ - 1;
  CHECK(first.node()->bodies()[0] == second.node()->bodies()[0]);
  const Graph flat = inline_calls(r.graph({second}));
  verify(flat);
  CHECK(flat.nodes.size() > 10);
  const Node& last = *flat.outputs[0].node();
  CHECK(last.loc.line == static_cast<std::uint32_t>(line));
  CHECK(interned_text(last.scope) == "softmax");
  for (const Tensor& value : first.node()->bodies()[0]->nodes)
    for (const Tensor& copy : flat.nodes) CHECK(copy.node() != value.node());
}

TEST_CASE("a call that somebody takes stays whole, and passes work on copies of its body") {
  graph_test::Recording r;
  const Tensor x = r.input(DType::f32, Shape::of(2, 3));
  const Graph graph = r.graph({silu(softmax(x, 1))});
  const auto takes = [](const Node& node) { return node.op == Op::call && std::string(name_of(node)) == "softmax"; };
  const Graph kept = inline_calls(graph, {{}, takes});
  verify(kept);
  std::size_t calls = 0;
  for (const Tensor& value : kept.nodes) calls += value.node()->op == Op::call;
  CHECK(calls == 1);
  const std::string before = structure_text(*graph.nodes[1].node()->bodies()[0]);
  const Graph changed = in_bodies(kept, [](const Graph& body) { return inline_calls(body); });
  verify(changed);
  CHECK(structure_text(*graph.nodes[1].node()->bodies()[0]) == before);
}

TEST_CASE("an optimizer's update of a parameter is one call") {
  struct Model {
    Param w = ones({3});
  };
  for (const double momentum : {0.0, 0.9}) {
    const std::string text = [&] {
      Model model;
      optim::SGD opt(model, {.lr = 0.1, .momentum = momentum});
      auto step =
          compile([](Model& model, optim::SGD& opt,
                     const Tensor& x) { opt.update(model, grad([&](const Model& m) { return sum(m.w * x); }, model)); },
                  {.backend = Backend::eager});
      return explain(step, model, opt, ones({3})).graph;
    }();
    INFO(text);
    CHECK(calls_in(text) == 1);
    CHECK(text.find("\"sgd\"") != std::string::npos);
  }
}

TEST_CASE("a composite of 16-bit floats rounds once, and integers are f32 in it, eagerly and compiled") {
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x, -1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, 1); }},
      {"log of a softmax's sum", [](const Tensor& x) { return logsumexp(softmax(x, 0), 0, true); }},
  };
  const Tensor x = reshape(linspace(-6, 6, 480), {20, 24}).eval();
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Tensor narrow = cast(x, dtype);
      Tensor wide = f(cast(narrow, DType::f32));
      if (std::string(name) == "log of a softmax's sum")
        wide = logsumexp(cast(softmax(narrow, 0), DType::f32), 0, true);
      CHECK(f(narrow).dtype() == dtype);
      CHECK(sum(f(narrow) != cast(wide, dtype)).item<long>() == 0);
      CHECK(sum(compile(f)(narrow) != f(narrow)).item<long>() == 0);
    }
    const Tensor bytes = cast(abs(x) * 40, DType::u8), numbers = cast(x * 3e8, DType::i32);
    for (const Tensor& integers : {bytes, numbers}) {
      CHECK(f(integers).dtype() == DType::f32);
      CHECK(sum(f(integers) != f(cast(integers, DType::f32))).item<long>() == 0);
    }
  }
}
