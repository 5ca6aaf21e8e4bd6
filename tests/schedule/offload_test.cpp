// Which temporaries of a device wait in the host's memory, and when: planned without a device.
#include "schedule/offload.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/schedule/traced.hpp"
#include "weft/grad.hpp"
#include "weft/offload.hpp"

using namespace weft;
using test::Traced;

namespace {

const Device gpu = Device::cuda();

// The gradients of products by `layers` weights, of [rows, 512], each offloaded.
Schedule schedule_of(int layers, bool offloads, Device device = gpu, bool symbolic = false) {
  Traced t;
  const Tensor x = t.input(device, Shape::of(symbolic ? t.symbol(1024) : Dim(1024), 512));
  std::vector<Tensor> weights;
  for (int i = 0; i < layers; ++i) weights.push_back(t.input(device, Shape::of(512, 512)));
  const std::vector<Tensor> slopes = grad(
      [&](const std::vector<Tensor>& weights) {
        Tensor y = x;
        for (const Tensor& w : weights) {
          const auto layer = [&](const Tensor& x) { return tanh(matmul(x, w)); };
          y = offloads ? offload(layer)(y) : layer(y);
        }
        return sum(y);
      },
      weights);
  const auto provided = [=](const Node& node) { return providers::all().takes(node, device); };
  Graph graph = common_subexpressions(simplify_algebra(fold_constants(inline_calls(t.graph(slopes)))));
  graph = decompose_matmul(graph, {device, provided});
  verify(graph);
  Schedule schedule = make_schedule(graph, device, providers::all());
  offload_values(schedule, graph, device);
  plan_memory(schedule, device);
  return schedule;
}
constexpr std::int64_t value_bytes = 1024 * 512 * 4;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }
std::ptrdiff_t count(const Schedule& schedule, const std::string& name) {
  return std::ranges::count(schedule.steps, name, &Step::name);
}
std::int64_t bytes_of(const Schedule& schedule, int buffer) {
  const ScheduleBuffer& it = schedule.buffers[static_cast<std::size_t>(buffer)];
  return storage_bytes(info(it.dtype), it.elements).constant();
}

}  // namespace

TEST_CASE("offloaded values of a device leave it between their uses, in pairs of steps") {
  const Schedule kept = schedule_of(16, false), gone = schedule_of(16, true);
  CHECK(count(kept, "offload") == 0);
  CHECK(kept.host_bytes.same(Dim(0)));
  const std::ptrdiff_t copies = count(gone, "offload") / 2;
  CHECK(copies >= 12);
  CHECK(count(gone, "offload") == 2 * copies);
  CHECK(count(gone, "bring_back") == 2 * copies);
  CHECK(gone.host_bytes.same(Dim(copies * value_bytes)));
  CHECK(kept.arena_bytes.constant() >= 16 * value_bytes);
  CHECK(gone.arena_bytes.constant() <= 6 * value_bytes);
  std::ptrdiff_t away = 0;
  for (std::size_t b = 0; b < gone.buffers.size(); ++b) {
    const ScheduleBuffer& buffer = gone.buffers[b];
    if (buffer.leaves_at < 0) continue;
    ++away;
    CHECK(buffer.leaves_at + 1 < buffer.returns_at);
    CHECK(gone.steps[static_cast<std::size_t>(buffer.leaves_at)].name == "offload");
    CHECK(gone.steps[static_cast<std::size_t>(buffer.returns_at)].name == "bring_back");
    std::vector<int> at;
    for (std::size_t s = 0; s < gone.steps.size(); ++s)
      if (std::ranges::count(gone.steps[s].buffers, static_cast<int>(b))) at.push_back(static_cast<int>(s));
    for (const int step : at) CHECK((step <= buffer.leaves_at || step >= buffer.returns_at));
    CHECK(std::ranges::count(at, buffer.leaves_at) == 1);
    CHECK(std::ranges::count(at, buffer.returns_at) == 1);
  }
  CHECK(away == copies);
  const std::string text = to_text(gone);
  for (std::ptrdiff_t i = 0; i < copies; ++i)
    CHECK(contains(text, "offloaded at " + std::to_string(i * value_bytes) + ", f32 x 524288\n"));
  CHECK(contains(text, "offload"));
  CHECK(contains(text, ", begun"));
  CHECK(contains(text, ", awaited"));
  CHECK_FALSE(contains(to_text(kept), "offloaded"));
}

TEST_CASE("while a copy is under way nobody writes what it reads, and nobody reads or writes what it writes") {
  const Schedule schedule = schedule_of(24, true);
  int copies = 0;
  for (std::size_t begin = 0; begin < schedule.steps.size(); ++begin) {
    const Step& copy = schedule.steps[begin];
    if ((copy.name != "offload" && copy.name != "bring_back") || copy.payload->details() != ", begun") continue;
    ++copies;
    std::size_t end = begin + 1;
    for (; end < schedule.steps.size(); ++end) {
      const Step& step = schedule.steps[end];
      if (step.name == copy.name && step.buffers == copy.buffers) break;
      const std::vector<bool> writes = step.payload->writes(step.buffers.size());
      for (std::size_t i = 0; i < writes.size(); ++i) {
        CHECK(step.buffers[i] != copy.buffers[1]);
        CHECK((step.buffers[i] != copy.buffers[0] || !writes[i]));
      }
    }
    REQUIRE(end < schedule.steps.size());
    CHECK(schedule.steps[end].payload->details() == ", awaited");
  }
  CHECK(copies >= 2 * 18);
}

TEST_CASE("what is under way to and from the host is bounded, and copies overlap with steps") {
  const Schedule schedule = schedule_of(32, true);
  std::int64_t under_way[2] = {}, most[2] = {};
  int overlapped = 0;
  std::string before;
  for (const Step& step : schedule.steps) {
    const int way = step.name == "offload" ? 0 : step.name == "bring_back" ? 1 : -1;
    if (way < 0) {
      overlapped += under_way[0] + under_way[1] > 0;
      continue;
    }
    const bool begins = step.payload->details() == ", begun";
    under_way[way] += begins ? bytes_of(schedule, step.buffers[0]) : -bytes_of(schedule, step.buffers[0]);
    most[way] = std::max(most[way], under_way[way]);
  }
  CHECK(under_way[0] == 0);
  CHECK(under_way[1] == 0);
  for (const std::int64_t bytes : most) {
    CHECK(bytes >= 2 * value_bytes);
    CHECK(bytes <= 33 * value_bytes / 8);
  }
  CHECK(overlapped >= 60);
}

TEST_CASE("no two values are in the same memory at once") {
  const Schedule schedule = schedule_of(24, true);
  struct Life {
    std::int64_t begin, end;
    std::vector<bool> live;
  };
  std::vector<Life> lives;
  for (std::size_t b = 0; b < schedule.buffers.size(); ++b) {
    const ScheduleBuffer& buffer = schedule.buffers[b];
    if (buffer.kind != ScheduleBuffer::Kind::temporary) continue;
    Life life{buffer.offset.constant(), buffer.offset.constant() + bytes_of(schedule, static_cast<int>(b)),
              std::vector<bool>(schedule.steps.size())};
    int first = -1, last = -1;
    for (std::size_t s = 0; s < schedule.steps.size(); ++s)
      if (std::ranges::count(schedule.steps[s].buffers, static_cast<int>(b)))
        last = static_cast<int>(s), first = first < 0 ? last : first;
    for (int s = std::max(first, 0); s < last; ++s)  // in its last step it may be overwritten
      life.live[static_cast<std::size_t>(s)] = buffer.leaves_at < 0 || s <= buffer.leaves_at || s >= buffer.returns_at;
    lives.push_back(std::move(life));
  }
  int clashes = 0, shared = 0;
  for (std::size_t i = 0; i < lives.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (lives[i].begin >= lives[j].end || lives[j].begin >= lives[i].end) continue;
      ++shared;
      for (std::size_t s = 0; s < schedule.steps.size(); ++s) clashes += lives[i].live[s] && lives[j].live[s];
    }
  CHECK(clashes == 0);
  CHECK(shared > 0);
}

TEST_CASE("on the CPU, for few layers and for small values nothing is offloaded; sizes may be symbolic") {
  CHECK(count(schedule_of(16, true, Device::cpu()), "offload") == 0);
  CHECK(count(schedule_of(1, true), "offload") == 0);
  const OffloadChoices before = offload_choices;
  offload_choices.least_bytes = value_bytes + 1;
  CHECK(count(schedule_of(16, true), "offload") == 0);
  offload_choices = before;
  const Schedule symbolic = schedule_of(16, true, gpu, true);
  CHECK(count(symbolic, "offload") >= 24);
  const std::int64_t rows[] = {1024};
  CHECK(dims::evaluate(symbolic.arena_bytes, rows) <= 8 * value_bytes);
  CHECK(dims::evaluate(symbolic.host_bytes, rows) >= 12 * value_bytes);
}
