// memory_budget: what is computed again lowers what a compiled step holds, and changes nothing else.
#include "passes/rematerialize.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "base/fail.hpp"
#include "base/options.hpp"
#include "ir/parse.hpp"
#include "pipeline.hpp"
#include "tests/needs_compiler.hpp"
#include "tests/runtime/support.hpp"
#include "tests/sanitized.hpp"
#include "tests/schedule/traced.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"
#include "weft/random.hpp"
#include "weft/tree.hpp"

using namespace weft;
using namespace trace_test;

namespace {

struct Block {
  nn::LayerNorm norm{16};
  nn::Linear in{16, 64}, out{64, 16};
  Tensor operator()(const Tensor& x) const { return x + out(gelu(in(norm(x)))); }
};
struct Stack {
  std::vector<Block> blocks = std::vector<Block>(6);
  Tensor operator()(Tensor x) const {
    for (const Block& block : blocks) x = block(x);
    return x;
  }
};
constexpr auto slopes = [](const Stack& m, const Tensor& x) {
  return value_and_grad([&](const Stack& m) { return mean(square(m(x))); }, m);
};
constexpr double budgets[] = {1, 0.75, 0.5, 0.25, 0};

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}
double difference(const Stack& a, const Stack& b) {
  const auto left = nn::parameters(a), right = nn::parameters(b);
  double greatest = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    greatest = std::max(greatest, amax(abs(left[i].value - right[i].value)).item<double>());
  return greatest;
}

// A value that is read at the end of many layers, each of which the last node reads too.
std::string layers(int count, const char* rows) {
  std::string text = concat_text("%0 f32[", rows, ",64] = input(0)\n%1 f32[64,64] = input(1)\n");
  int next = 2, x = 0;
  std::vector<int> waves;
  for (int i = 0; i < count; ++i) {
    text += concat_text("%", next, " f32[", rows, ",64] = matmul(%", x, ", %1)\n");
    text += concat_text("%", next + 1, " f32[", rows, ",64] = sin(%", next, ")\n");
    waves.push_back(next + 1);
    x = next + 1;
    next += 2;
  }
  for (const int wave : std::vector<int>(waves.rbegin(), waves.rend())) {
    text += concat_text("%", next, " f32[", rows, ",64] = mul(%", x, ", %", wave, ")\n");
    text += concat_text("%", next + 1, " f32[", rows, ",64] = matmul(%", next, ", %1)\n");
    x = next + 1;
    next += 2;
  }
  return text + concat_text("return %", x, "\n");
}
std::ptrdiff_t count(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes, [&](const Tensor& value) { return value.node()->op == op; });
}

}  // namespace

TEST_CASE("a smaller budget holds less, computes more products again, and leaves each value one copy at most") {
  const Graph graph = parse_graph(layers(12, "256"));
  std::int64_t held = held_bytes(graph).most;
  std::ptrdiff_t products = count(graph, Op::matmul);
  for (const double budget : budgets) {
    CAPTURE(budget);
    PassContext context;
    context.memory_budget = budget;
    const Graph made = rematerialize(graph, context);
    verify(made);
    CHECK(held_bytes(made).most <= held);
    CHECK(count(made, Op::matmul) >= products);
    CHECK(count(made, Op::matmul) <= 3 * 12);
    if (budget == 1) CHECK(structure_text(made) == structure_text(graph));
    // A chain is cut where it holds the most, and what is computed again once more only (most_turns): 9 of 13 values.
    if (budget == 0) CHECK(13 * held_bytes(made).most <= 9 * held_bytes(graph).most);
    held = held_bytes(made).most;
    products = count(made, Op::matmul);
  }
}

TEST_CASE("at a budget of 1 nothing is computed again, and below it what costs little goes first") {
  const Graph graph = parse_graph(layers(12, "16384"));  // 4 MiB a value
  CHECK(structure_text(rematerialize(graph, {})) == structure_text(graph));
  PassContext context;
  context.memory_budget = 0.99;
  const Graph made = rematerialize(graph, context);
  verify(made);
  CHECK(held_bytes(made).most < held_bytes(graph).most);
  CHECK(count(made, Op::matmul) <= count(graph, Op::matmul) + 2);  // of layers that are alike
}

TEST_CASE("what is computed again is what a table of measured times says is cheap") {
  // Products, and waves of a result, all of which are read at the end.
  constexpr int pairs = 20;
  const std::string type = " f32[64,64] = ";
  std::string text;
  int next = 0;
  const auto add = [&](const std::string& what) {
    text += concat_text("%", next, type, what, "\n");
    return next++;
  };
  for (int i = 0; i < 2 * pairs; ++i) add(concat_text("input(", i, ")"));
  const int result = add("matmul(%0, %0)");
  std::vector<int> late;
  for (int i = 0; i < pairs; ++i) {
    late.push_back(add(concat_text("matmul(%", i, ", %", i + pairs, ")")));
    const int angle = add(concat_text("mul(%", result, ", %", i, ")"));
    late.push_back(add(concat_text("sin(%", angle, ")")));
  }
  int y = 0;
  for (const int value : late) y = add(concat_text("matmul(%", y, ", %", value, ")"));
  const Graph graph = parse_graph(text + concat_text("return %", y, " %", result, "\n"));
  const auto again = [&](const Graph& made, Op op) {
    return std::ranges::count_if(
        made.nodes, [&](const Tensor& value) { return value.node()->op == op && value.node()->recomputation != 0; });
  };
  for (const Op cheap : {Op::matmul, Op::sin}) {
    CAPTURE(info(cheap).name);
    const Op expensive = cheap == Op::sin ? Op::matmul : Op::sin;
    PassContext context;
    context.memory_budget = 0.5;
    context.measured = [&](const Graph& of) {
      std::vector<double> times;
      for (const Tensor& value : of.nodes)
        times.push_back(value.node()->op == cheap ? 1e3 : value.node()->op == expensive ? 1e9 : -1);
      return times;
    };
    const Graph made = rematerialize(graph, context);
    verify(made);
    CHECK(again(made, cheap) >= pairs);
    CHECK(again(made, expensive) == 0);
  }
}

TEST_CASE("no budget takes more than a larger one whatever its plans take, and few are planned") {
  const Graph graph = parse_graph(layers(40, "256"));
  const double whole = static_cast<double>(held_bytes(graph).most);
  int most = 0;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::map<std::string, std::int64_t> bytes;
    int plans = 0;
    PassContext context;
    context.planned = [&](const Graph& of) {
      ++plans;
      const auto [found, is_new] = bytes.try_emplace(structure_text(of));
      if (is_new) {
        std::mt19937 random(seed + static_cast<std::uint32_t>(std::hash<std::string>()(found->first)));
        const double share = std::uniform_real_distribution(0.3, 1.3)(random);
        found->second =
            static_cast<std::int64_t>(share * (seed % 2 ? static_cast<double>(held_bytes(of).most) : whole));
      }
      return found->second;
    };
    std::int64_t before = context.planned(graph);
    for (double budget = 0.95; budget >= 0; budget -= 0.05) {
      CAPTURE(budget);
      context.memory_budget = budget;
      plans = 0;
      const Graph made = rematerialize(graph, context);
      most = std::max(most, plans);
      const std::int64_t taken = context.planned(made);
      CHECK(taken <= before);
      before = taken;
    }
  }
  CHECK(most <= 14);
}

TEST_CASE("a compiled step under a budget takes less memory, with the same loss and gradients" *
          test::needs(test::a_compiler)) {
  seed(3);
  const Stack model;
  const Tensor x = normal({512, 16});
  const auto plain = slopes(model, x);
  std::int64_t before = std::numeric_limits<std::int64_t>::max(), first = 0;
  for (const double budget : budgets) {
    CAPTURE(budget);
    const auto step = compile(slopes, {.memory_budget = budget});
    const Explanation all = explain(step, model, x);
    CHECK(all.memory.temporaries <= before);
    before = all.memory.temporaries;
    if (budget == 1) first = before;
    CHECK(contains(all.optimized, " recomputation ") == (budget < 1));
    CHECK(all.recomputed.empty() == (budget == 1));
    if (budget == 0) {
      CHECK(contains(text_of(all.recomputed), "operations, about "));
      CHECK(contains(text_of(all.recomputed), " bytes: add, f32[512,16], at rematerialize_test.cpp:"));
      CHECK(contains(text_of(all.recomputed), ": not held until then\n"));
      CHECK(contains(to_string(all), "---- computed again ----\nfor "));
    }
    const auto found = step(model, x);
    CHECK(std::abs(found.value.item<double>() - plain.value.item<double>()) <= 1e-6);
    CHECK(difference(found.gradients, plain.gradients) <= 1e-5);
  }
  CHECK(2 * before < first);
}

// A factor of each derivative follows from the layer alone, and each sum of a layer and what it reads from the one
// before.
TEST_CASE("of a deep stack of residual layers a budget holds about that part" * test::needs(test::a_compiler)) {
  struct Deep {
    std::vector<nn::Linear> layers;
  };
  const auto step = [](const Deep& model, const Tensor& x, bool has_bias) {
    return grad(
        [&](const Deep& m) {
          Tensor y = x;
          for (const nn::Linear& layer : m.layers) y = y + gelu(has_bias ? layer(y) : matmul(y, layer.weight));
          return mean(square(y));
        },
        model);
  };
  const Tensor x = normal({512, 64});
  for (const auto& [layers, has_bias] : {std::pair(12, true), std::pair(24, true), std::pair(12, false)}) {
    CAPTURE(layers);
    CAPTURE(has_bias);
    const Deep model{std::vector<nn::Linear>(static_cast<std::size_t>(layers), nn::Linear(64, 64))};
    const auto taken = [&](double budget) {
      return static_cast<double>(explain(compile(step, {.memory_budget = budget}), model, x, has_bias).memory.temporaries);
    };
    const double whole = taken(1);
    CHECK(taken(0.5) <= 0.8 * whole);
    CHECK(taken(0.2) <= 0.7 * whole);
  }
}

TEST_CASE("no budget takes more memory than a larger one, in small steps whose temporaries lie in results too") {
  std::mt19937 random(11);
  const auto one_of = [&](std::initializer_list<int> numbers) { return numbers.begin()[random() % numbers.size()]; };
  int helped = 0;
  constexpr int steps = 20 / test::less_when_sanitized;
  for (int i = 0; i < steps; ++i) {
    const int layers = one_of({2, 3, 5, 8}), width = one_of({8, 32, 64}), kind = one_of({0, 1, 2, 3});
    const int rows = one_of({16, 64, 256, 1024});
    const bool is_residual = one_of({0, 1}), normed = one_of({0, 1}), updates = one_of({0, 1});
    const std::string step =
        concat_text(layers, " layers of ", width, ", ", rows, " rows, kind ", kind, is_residual ? ", residual" : "",
                    normed ? ", norms" : "", updates ? ", updated" : "");
    CAPTURE(step);
    test::Traced t;
    const Tensor x = t.f32(rows, width);
    std::vector<Tensor> weights;
    for (int layer = 0; layer < layers; ++layer) weights.push_back(t.f32(width, width));
    const auto [loss, slopes] = value_and_grad(
        [&](const std::vector<Tensor>& weights) {
          Tensor y = x;
          for (const Tensor& weight : weights) {
            Tensor z = matmul(normed ? nn::layer_norm(y, {width}) : y, weight);
            z = kind == 0 ? gelu(z) : kind == 1 ? tanh(z) : kind == 2 ? softmax(z, -1) : relu(z) * sin(z);
            y = is_residual ? y + z : z;
          }
          return mean(square(y));
        },
        weights);
    PipelineOptions options;
    std::vector<Tensor> outputs{loss};
    for (int layer = 0; layer < layers; ++layer) {
      const auto at = static_cast<std::size_t>(layer);
      outputs.push_back(updates ? weights[at] - 0.1f * slopes[at] : slopes[at]);
      if (updates) options.updates.push_back({layer + 1, layer + 1});
    }
    const Graph graph = t.graph(outputs);
    const std::int64_t whole = planned_bytes(graph, options);
    std::int64_t before = whole;
    for (const double budget : {0.8, 0.5, 0.3, 0.0}) {
      CAPTURE(budget);
      options.memory_budget = budget;
      const std::int64_t taken = planned_bytes(graph, options);
      CHECK(taken <= before);
      before = taken;
    }
    helped += before < whole;
  }
  CHECK(2 * helped >= steps);
}

TEST_CASE("what is computed again does not follow from the number of threads, whose workspaces a plan has") {
  const test::KeepOptions keep;
  constexpr int layers = 6, width = 96;
  test::Traced t;
  const Tensor x = t.f32(192, width);
  std::vector<Tensor> weights;
  for (int layer = 0; layer < layers; ++layer) weights.push_back(t.f32(width, width));
  const auto [loss, slopes] = value_and_grad(
      [&](const std::vector<Tensor>& weights) {
        Tensor y = x;
        for (const Tensor& weight : weights) y = y + gelu(matmul(nn::layer_norm(y, {width}), weight));
        return mean(square(y));
      },
      weights);
  std::vector<Tensor> outputs{loss};
  outputs.insert(outputs.end(), slopes.begin(), slopes.end());
  const Graph graph = t.graph(outputs);
  for (const double budget : {1.0, 0.7, 0.5, 0.3, 0.0}) {
    CAPTURE(budget);
    PipelineOptions options;
    options.memory_budget = budget;
    std::int64_t bytes = 0;
    std::string chosen;
    for (const int threads : {1, 2, 3, 7}) {
      CAPTURE(threads);
      weft::options().num_threads = threads;
      if (threads == 1) bytes = planned_bytes(graph, options), chosen = structure_text(optimize(graph, options));
      CHECK(planned_bytes(graph, options) == bytes);
      CHECK(structure_text(optimize(graph, options)) == chosen);
    }
  }
}

TEST_CASE("a model that is differentiated outside saves less under a budget") {
  seed(3);
  const Stack model;
  const Tensor x = normal({64, 16});
  const auto plain = slopes(model, x);
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const double budget : {1.0, 0.5}) {  // equal blocks: at 0.5 none is saved, and 0.1 can't save less
    CAPTURE(budget);
    const auto f = compile([](const Stack& m, const Tensor& x) { return m(x); }, {.memory_budget = budget});
    const auto found = value_and_grad([&](const Stack& m) { return mean(square(f(m, x))); }, model);
    CHECK(difference(found.gradients, plain.gradients) <= 1e-5);
    std::int64_t saved = 0;
    for (const std::string& line : explain(f, model, x).derivatives)
      if (const std::size_t at = line.find("arguments and results: "); at != std::string::npos)
        saved = std::atoll(line.c_str() + at + 23);
    CHECK(saved < before);
    before = saved;
  }
}

TEST_CASE("what is computed again has the same dropout masks, winners and state") {
  static constexpr auto train = [](nn::BatchNorm1d& norm, const Tensor& w, const Tensor& x) {
    return value_and_grad(
        [&](const Tensor& w) {
          Tensor y = x;
          for (int i = 0; i < 4; ++i) y = nn::dropout(tanh(matmul(norm(y), w)), 0.5, true);
          return sum(amax(y * y, {1})) + mean(round(y * 8) * y);
        },
        w);
  };
  seed(5);
  const Tensor x = normal({256, 16}), w = normal({16, 16}) * 0.5;
  const auto run = [&](double budget) {
    nn::BatchNorm1d norm(16);
    seed(6);
    const auto found = compile(train, {.memory_budget = budget})(norm, w, x);
    return std::tuple{found.value, found.gradients, norm.running_mean, norm.running_var};
  };
  const auto [loss, slope, mean, variance] = run(1);
  const auto [loss_again, slope_again, mean_again, variance_again] = run(0);
  CHECK(text_of(loss_again) == text_of(loss));
  CHECK(text_of(mean_again) == text_of(mean));
  CHECK(text_of(variance_again) == text_of(variance));
  CHECK(amax(abs(slope_again - slope)).item<float>() <= 1e-4f * amax(abs(slope)).item<float>());
}

TEST_CASE("second derivatives, symbolic sizes, loops and updated state under a budget") {
  seed(7);
  const Tensor w = normal({16, 16}) * 0.3;
  static constexpr auto second = [](const Tensor& w, const Tensor& x) {
    const auto f = [&](const Tensor& w) {
      Tensor y = x;
      for (int i = 0; i < 4; ++i) y = tanh(matmul(y, w));
      return sum(y * y);
    };
    return grad([&](const Tensor& w) { return sum(square(grad(f, w))); }, w);
  };
  const auto tight = compile(second, {.dynamic = true, .memory_budget = 0.1});
  for (const std::int64_t rows : {64, 96, 32}) {
    const Tensor x = normal({rows, 16}), plain = second(w, x);
    CHECK(amax(abs(tight(w, x) - plain)).item<float>() <= 1e-4f * amax(abs(plain)).item<float>());
  }
  CHECK(specialization_count(tight) == 1);
  // A whole step that changes its model, twice.
  static constexpr auto train = [](Stack& m, optim::AdamW& o, const Tensor& x) {
    auto [loss, gradients] = slopes(m, x);
    o.update(m, gradients);
    return loss;
  };
  const Tensor x = normal({128, 16});
  const auto trained = [&](double budget) {
    seed(8);
    Stack model;
    optim::AdamW optimizer(model);
    const auto step = compile(train, {.memory_budget = budget});
    for (int i = 0; i < 2; ++i) step(model, optimizer, x);
    return model;
  };
  CHECK(difference(trained(0.2), trained(1)) <= 1e-4);
}

TEST_CASE("a memory budget that is none is one sentence with the line") {
  for (const double budget : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    const std::string message =
        message_of([&] { compile([](const Tensor& x) { return x + 1; }, {.memory_budget = budget}); });
    CAPTURE(message);
    CHECK(contains(message, "memory_budget must be from 0 to 1, it is "));
    CHECK(contains(message, concat_text("rematerialize_test.cpp:", __LINE__ - 3)));
  }
}
