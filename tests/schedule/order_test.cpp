// The order of steps, and where temporaries lie then.
#include <doctest/doctest.h>

#include <algorithm>

#include "ir/parse.hpp"
#include "pipeline.hpp"
#include "schedule/recomputations.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/loops.hpp"

using namespace weft;
using test::Traced;

namespace {

constexpr std::int64_t wide = 512 * 512 * 4;  // bytes

// Products of `count` wide products, each [512,512], with a column, and the sum of these.
Tensor narrow(Traced& t, Dim size, int count) {
  const Tensor x = t.input(DType::f32, Shape::of(size, 64));
  std::vector<Tensor> products;
  for (int i = 0; i < count; ++i) products.push_back(matmul(x, t.input(DType::f32, Shape::of(64, size))));
  const Tensor column = t.input(DType::f32, Shape::of(size, 1));
  Tensor total;
  for (const Tensor& product : products) {
    const Tensor reduced = matmul(product, column);
    total = total.defined() ? total + reduced : reduced;
  }
  return total;
}

}  // namespace

TEST_CASE("wide branches that are each reduced to little are alive one at a time") {
  for (const int count : {2, 5, 20}) {
    Traced t;
    const Schedule schedule = t.schedule({narrow(t, 512, count)});
    CHECK(schedule.arena_bytes.constant() >= wide);
    CHECK(schedule.arena_bytes.constant() < wide + 20 * 512 * 4 + 4096);
  }
}

TEST_CASE("the order of steps of symbolic sizes is that of their hints") {
  Traced t;
  const Schedule schedule = t.schedule({narrow(t, t.symbol(512), 5)});
  const std::int64_t n_is_512[] = {512};
  CHECK(dims::evaluate(schedule.arena_bytes, n_is_512) < wide + 20 * 512 * 4 + 4096);
}

TEST_CASE("state is still written where it was, after all who read it, whatever an earlier place would free") {
  Traced t;
  const Tensor x = t.f32(256, 256), state = t.f32(256, 256);
  const Tensor gradient = matmul(x, x);
  const Tensor later = matmul(tanh(x), state);
  Schedule schedule = t.schedule({sum(later), state - softmax(gradient)});
  REQUIRE(schedule.donations.size() == 1);
  CHECK(schedule.donations[0].argument == 1);
  CHECK(schedule.donations[0].result == 1);
}

namespace {
// Products by a library that may fail, as one that allocates does.
struct Fails final : Payload {
  std::string details() const override { return {}; }
  loop::Cost cost() const override { return {1, 1}; }
  bool may_fail() const override { return true; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }
};
struct Libraries final : Providers {
  bool takes(const Node&, Device) const override { return true; }
  bool reads(const Node&, Device, const Shape&, Dim, std::span<const Dim>) const override { return true; }
  bool writes_in_any_order(const Node&, Device) const override { return false; }
  Offer best(const Candidate&) const override { return {1, std::make_shared<Fails>()}; }
  std::shared_ptr<Payload> generated(std::vector<loop::Kernel> kernels) const override {
    return providers::all().generated(std::move(kernels));
  }
  std::size_t most_sets(const loop::Kernel&, Device) const override { return 1; }
};
}  // namespace

TEST_CASE("updates of state run after all steps that may fail, where that takes no more memory than it saves") {
  for (const bool little : {false, true}) {
    Traced t;
    const Tensor x = t.f32(256, 256), state = little ? t.f32(1, 256) : t.f32(256, 256);
    const Tensor gradient = matmul(x, x);
    const Tensor updated = state - (little ? sum(gradient, 0, true) : gradient * 0.1);
    const Tensor later = matmul(exp(matmul(tanh(x), x)), x);
    Schedule schedule = make_schedule(t.graph({updated, later}), Device::cpu(), Libraries());
    plan_memory(schedule);
    std::size_t at = 0, last_that_fails = 0;
    for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
      if (schedule.steps[s].payload->may_fail()) last_that_fails = s;
      for (const int b : schedule.steps[s].buffers) {
        const ScheduleBuffer& buffer = schedule.buffers[static_cast<std::size_t>(b)];
        if (buffer.kind == ScheduleBuffer::Kind::result && buffer.index == 0) at = s;
      }
    }
    CHECK((at > last_that_fails) == !little);
    CHECK(schedule.donations.size() == (little ? 0 : 1));
  }
}

TEST_CASE("a check writes nothing: an order of steps keeps checks in theirs") {
  Traced t;
  const Tensor table = t.f32(8, 4);
  const Tensor rows[] = {t.input(DType::i64, Shape::of(3)), t.input(DType::i64, Shape::of(5))};
  const Schedule schedule = t.schedule({sum(gather(table, rows[0])) + sum(gather(table, rows[1]))});
  int checks = 0;
  for (const Step& step : schedule.steps) {
    if (!step.payload->is_check()) continue;
    ++checks;
    CHECK(step.payload->writes(1) == std::vector<bool>{false});
    CHECK(step.payload->writes(2) == std::vector<bool>{false, true});  // on a device: the error word
  }
  CHECK(checks == 2);
}

TEST_CASE("a loop whose body checks writes the error word of a device, besides its results") {
  Traced t;
  const Tensor table = t.f32(8, 4), places = t.input(DType::i64, Shape::of(3));
  const Schedule schedule = t.schedule(
      {scan([&](const Tensor& all, const Tensor& at) { return all + gather(table, at); }, zeros({4}), places)});
  int checks = 0;
  for (const Step& step : schedule.steps) {
    if (!step.payload->is_check()) continue;
    ++checks;
    std::vector<bool> written = step.payload->writes(step.buffers.size());
    CHECK_FALSE(written[0]);
    written.push_back(true);
    CHECK(step.payload->writes(step.buffers.size() + 1) == written);
  }
  CHECK(checks == 1);
}

TEST_CASE("a recomputation waits for the gradient that reaches it, through hundreds of them, nested ones too") {
  constexpr std::uint32_t count = 300;
  std::string text = "%0 f32[8] = input(0)\n";
  for (std::uint32_t r = 1; r <= count; ++r)  // what is computed again, before all gradients
    text += concat_text("%", r, " f32[8] = tanh(%0) recomputation ", r, "\n");
  const auto gradient = [](std::uint32_t r) { return r == 0 ? 0 : count + 3 * r; };
  for (std::uint32_t r = 1; r <= count; ++r) {
    const std::uint32_t last = gradient(r);
    // A part of it is computed again by a checkpoint inside, which reads its value and the gradient.
    text += concat_text("%", last - 2, " f32[8] = exp(%", r, ") recomputation ", count + r, "\n");
    text += concat_text("%", last - 1, " f32[8] = mul(%", gradient(r - 1), ", %", last - 2, ") recomputation ",
                        count + r, "\n");
    text += concat_text("%", last, " f32[8] = mul(%", last - 1, ", %", r, ") recomputation ", r, "\n");
  }
  const Graph graph = parse_graph(text + concat_text("return %", gradient(count), "\n"));
  const std::vector<std::uint32_t> ranks = ranks_of_recomputations(graph);
  REQUIRE(ranks.size() == graph.nodes.size());
  bool waits = true;
  for (std::uint32_t r = 1; r <= count; ++r)
    for (const std::uint32_t own : {r, gradient(r) - 2}) waits = waits && ranks[own] > ranks[gradient(r - 1)];
  CHECK(waits);
  CHECK(ranks[gradient(count)] <= 8 * count);
}

namespace {
// What one of two steps back reads of the way forward: wide values that are kept, or `again` computed after it.
std::string there_and_back(const char* again) {
  std::string text = "%0 f32[512,64] = input(0)\n%1 f32[64,512] = input(1)\n%2 f32[512,1] = input(2)\n";
  int next = 3;
  std::string narrow = "%0";
  const auto node = [&](const std::string& line) {
    text += "%" + std::to_string(next) + " " + line + "\n";
    return "%" + std::to_string(next++);
  };
  std::vector<std::string> read;
  for (int i = 0; i < 6; ++i) {
    read.push_back(narrow);
    const std::string product = node("f32[512,512] = matmul(" + narrow + ", %1)");
    const std::string wide = node("f32[512,512] = sin(" + product + ")");
    const std::string column = node("f32[512,1] = matmul(" + wide + ", %2)");
    const std::string row = node("f32[512,64] = expand(" + column + ")");
    narrow = node("f32[512,64] = add(" + narrow + ", " + row + ")");
    read.back() += " " + wide;
  }
  for (int i = 6; i-- > 0;) {
    const std::string& both = read[static_cast<std::size_t>(i)];
    const std::string from = both.substr(0, both.find(' '));
    std::string wide = both.substr(both.find(' ') + 1);
    if (*again) {
      const std::string product = node("f32[512,512] = matmul(" + from + ", %1)" + again);
      wide = node("f32[512,512] = sin(" + product + ")" + again);
    }
    const std::string back = node("f32[512,512] = matmul(" + narrow + ", %1)");
    const std::string column =
        node("f32[512,1] = matmul(" + node("f32[512,512] = mul(" + back + ", " + wide + ")") + ", %2)");
    const std::string row = node("f32[512,64] = expand(" + column + ")");
    narrow = node("f32[512,64] = add(" + narrow + ", " + row + ")");
  }
  return text + "return " + narrow + "\n";
}
}  // namespace

TEST_CASE("a value of the way forward that is computed again on the way back does not live between") {
  const auto arena = [](const char* again) {
    const Graph graph = optimize(parse_graph(there_and_back(again)), {});
    Schedule schedule = make_schedule(graph, Device::cpu(), providers::all());
    plan_memory(schedule);
    return schedule.arena_bytes.constant();
  };
  const std::int64_t kept = arena(""), again = arena(" recomputation 1");
  CHECK(kept >= 6 * wide);
  CHECK(again <= 3 * wide + 8 * 512 * 64 * 4);
}

TEST_CASE("collectives are done in the order in which they were recorded, whatever they wait for and free") {
  const Collective group{{intern_text("data")}, 4};
  for (const std::int64_t size : {3, 600}) {
    Traced t;
    const Tensor x = t.f32(size, size);
    std::vector<Tensor> results;
    const auto reduce = [&](const Tensor& value) {
      results.push_back(
          record(Op::all_reduce_wait, {record(Op::all_reduce_start, {value}, group, {}, {})}, group, {}, {}));
    };
    reduce(sum(matmul(matmul(matmul(x, x), x), x), 0));                   // [size]
    reduce(slice(x, 0, 0, 2));                                            // [2, size], there from the start
    reduce(exp(slice(x, 0, 0, 3)) * 2);                                   // [3, size]
    results.push_back(record(Op::all_gather, {tanh(x)}, group, {}, {}));  // [4 * size, size]
    const Schedule schedule = t.schedule(results);
    std::vector<std::int64_t> elements;
    for (const Step& step : schedule.steps)
      if (step.payload->is_collective())
        elements.push_back(schedule.buffers[static_cast<std::size_t>(step.buffers.back())].elements.constant());
    REQUIRE(elements.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(elements[i] == std::vector{size, 2 * size, 3 * size, 4 * size * size}[i]);
  }
}
