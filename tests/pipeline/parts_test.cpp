// Plans in parts, here of the host: values between parts, sizes that change, threads, and what a call takes. Copies
// between parts are between devices: tests/stand_in/several_devices.cpp, tests/cuda/two_devices_test.cpp.
#include "pipeline/parts.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <thread>

#include "runtime/plan_memory.hpp"
#include "runtime/plan_parts.hpp"
#include "tests/message_of.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/weft.hpp"

using namespace weft;
using runtime::PartValue;
using test::Traced;

namespace {

std::shared_ptr<const runtime::Plan> plan_of(Graph graph) {
  const std::shared_ptr<const Executable> made = compile_graph(std::move(graph), {});
  return {made, &made->plan};
}

// y = 2 x + 1, then a copy of y, or its negation, then z = that * y: of n elements.
enum class Between : std::uint8_t { copy, negation };
runtime::Plan three_parts(Between between) {
  Graph first, negation, second;
  Dim n;
  {
    Traced t;
    n = t.symbol(8);
    first = t.graph({t.f32(n) * 2.0 + 1.0});
  }
  {
    Traced t;
    CHECK(t.symbol(8).same(n));
    negation = t.graph({-t.f32(n)});
  }
  {
    Traced t;
    CHECK(t.symbol(8).same(n));
    const Tensor y = t.f32(n), other = t.f32(n);
    second = t.graph({other * y});
  }
  using Kind = PartValue::Kind;
  std::vector<PartValue> values;
  for (const Kind kind : {Kind::argument, Kind::temporary, Kind::temporary, Kind::result})
    values.push_back({kind, 0, DType::f32, n, {}});
  const bool copies = between == Between::copy;
  std::vector<runtime::Part> parts{
      {plan_of(first), {0}, {1}}, {copies ? nullptr : plan_of(negation), {1}, {2}}, {plan_of(second), {2, 1}, {3}}};
  runtime::Plan plan;
  plan.argument_count = plan.result_count = plan.symbol_count = 1;
  plan.parts = std::make_shared<runtime::PlanParts>(values, parts, 1);
  return plan;
}

bool right(const runtime::Plan& plan, std::int64_t size, float scale) {
  std::vector<float> x(static_cast<std::size_t>(size)), z(x.size(), -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = scale * static_cast<float>(i % 17);
  void* arguments[] = {x.data()};
  void* results[] = {z.data()};
  const std::int64_t symbols[] = {size};
  runtime::run(plan, arguments, results, symbols);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const float y = 2 * x[i] + 1; std::abs(z[i] + y * y) > 1e-5F * y * y) return false;
  return true;
}

}  // namespace

TEST_CASE("parts run in their order, of any size, and from several threads") {
  const runtime::Plan plan = three_parts(Between::negation);
  for (const std::int64_t size : {8, 8, 100000, 3, 0, 8}) CHECK(right(plan, size, 0.5F));
  std::vector<std::thread> threads;
  std::array<bool, 4> good{};
  for (std::size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      good[t] = true;
      for (int i = 0; i < 200; ++i)
        good[t] = right(plan, 100 + static_cast<std::int64_t>(t) * (i % 3), static_cast<float>(t)) && good[t];
    });
  for (std::thread& thread : threads) thread.join();
  for (const bool each : good) CHECK(each);
}

TEST_CASE("what a call in parts takes: values between parts, results, and the parts' own") {
  const runtime::Plan plan = three_parts(Between::copy);
  const std::int64_t symbols[] = {1000};
  const runtime::PlanMemory memory = runtime::memory_of(plan, symbols);
  CHECK(memory.arguments == 4000);
  CHECK(memory.results == 4000);
  CHECK(memory.temporaries == 8000);
  REQUIRE(memory.live.size() == 3);
  CHECK(memory.live[0] == 12000);  // the place of a copy is there from the beginning
  CHECK(memory.live[2] == 12000);
  CHECK(runtime::step_count(plan) == 3);
}

TEST_CASE("what a part writes in an argument's place is what no later part reads, and no later part can fail") {
  Traced t;
  const Device first = Device::cuda(0), second = Device::cuda(1);
  const Tensor w = t.input(first, Shape::of(4)), v = t.input(second, Shape::of(4));
  const Tensor y = to(w * 2.0, second) * v;
  const Update updates[] = {{0, 0}, {1, 1}};
  const Graph graph = t.graph({w + to(y, first), v - y});
  // The plans are made by hand, as there need be no device: each part may write where its updates say.
  const auto join = [&](const Graph& of) {
    JoinedParts parts({.graph = of, .schedule = {}, .entries = {}, .executable = {}, .updates = updates, .title = "f"});
    for (JoinedParts::Part& part : parts.compilations(
             {.graph = of, .schedule = {}, .entries = {}, .executable = {}, .updates = updates, .title = "f"}))
      for (const Update& update : part.compilation.updates)
        part.compilation.executable->plan.donations.push_back({update.input, update.output});
    Executable whole;
    parts.join(whole);
    return whole.plan;
  };
  CHECK(join(graph).donations.size() == 2);
  // A check on the first device, of what the second one has changed, which would have written by then.
  const Tensor changed = v - y, results = w + to(y, first);
  record(Op::check, {all(to(changed, first) < 1e9)}, Message{{intern_text("too large")}}, {}, {});
  const runtime::Plan checked = join(t.graph({results, changed}));
  REQUIRE(checked.donations.size() == 1);
  CHECK(checked.donations[0].result == 0);
}
