// Slices of a state that kernels write: which, and what is left of their updates.
#include "schedule/slices.hpp"

#include <algorithm>

#include "tests/schedule/support.hpp"

using namespace weft;
using test::Traced;

namespace {

struct State {
  Tensor x, cache, at, longer;
  std::vector<Tensor> outputs;
};
template <class Make>
Schedule scheduled(Device device, Make make) {
  Traced t;
  State s{t.input(device, Shape::of(2, 1, 64)), t.input(device, Shape::of(2, 512, 64)),
          t.input(device, Shape(), DType::i64), t.input(device, Shape::of(6, 1, 64))};
  make(s);
  Schedule schedule = make_schedule(inline_calls(t.graph(s.outputs)), device, providers::all());
  plan_memory(schedule, device);
  return schedule;
}
// Recorded without the check of the position, which a device's kernels ask.
Tensor updated(const Tensor& cache, const Tensor& update, const Tensor& at, int axis = 1) {
  return record(Op::update_slice, {cache, update, at}, Along{static_cast<std::uint8_t>(axis)}, {}, {});
}
std::span<const loop::Kernel> kernels_of(const Step& step) {
  const auto* const has = dynamic_cast<const HasKernels*>(step.payload.get());
  return has ? has->kernels() : std::span<const loop::Kernel>();
}
// Stores at a position that is read from memory.
int slices(const Schedule& schedule) {
  int count = 0;
  for (const Step& step : schedule.steps)
    for (const loop::Kernel& kernel : kernels_of(step))
      count += static_cast<int>(std::ranges::count_if(kernel.body, [](const loop::Instruction& it) {
        return it.kind == loop::Kind::store &&
               dims::any_atom(it.index, [](const DimNode& atom) { return atom.kind == DimKind::value; });
      }));
  return count;
}
int updates(const Schedule& schedule) {  // that write something
  return static_cast<int>(std::ranges::count_if(schedule.steps, [](const Step& step) {
    const auto* const update = dynamic_cast<const UpdatesSlice*>(step.payload.get());
    return update && !update->slice().length.same(Dim(0));
  }));
}

}  // namespace

TEST_CASE("a kernel writes the slice that it computes for an update alone") {
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    const Schedule schedule = scheduled(device, [](State& s) { s.outputs = {updated(s.cache, tanh(s.x) * 2, s.at)}; });
    INFO(to_text(schedule));
    CHECK(slices(schedule) == 1);
    CHECK(updates(schedule) == 0);
    REQUIRE(schedule.donations.size() == 1);
    // The copy, where the state is somebody else's, comes first.
    CHECK(dynamic_cast<const UpdatesSlice*>(schedule.steps.front().payload.get()));
    CHECK(schedule.steps.size() == 2);
  }
}

TEST_CASE("an update stays where its kernel has other readers, or somebody reads the old state in between") {
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    const auto stays = [&](auto make) {
      const Schedule schedule = scheduled(device, make);
      INFO(to_text(schedule));
      CHECK(slices(schedule) == 0);
      CHECK(updates(schedule) == 1);
    };
    stays([](State& s) {
      const Tensor made = tanh(s.x) * 2;
      s.outputs = {updated(s.cache, made, s.at), made};
    });
    stays([](State& s) { s.outputs = {updated(s.cache, s.x, s.at)}; });
    stays([](State& s) { s.outputs = {updated(s.cache, s.x + sum(s.cache, 1, true), s.at)}; });
  }
}

TEST_CASE("an update stays after a check of what its kernel computes too: the state is written where it lies") {
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    Traced t;
    const Tensor x = t.input(device, Shape::of(64), DType::i64), at = t.input(device, Shape(), DType::i64);
    const Tensor index = x + 1, cache = t.input(device, Shape::of(512), DType::i64);
    const Tensor found = gather(t.input(device, Shape::of(40)), index);  // has a check of the index
    Schedule schedule =
        make_schedule(inline_calls(t.graph({updated(cache, index * 2, at, 0), found})), device, providers::all());
    plan_memory(schedule, device);
    INFO(to_text(schedule));
    CHECK(schedule.donations.size() == 1);
  }
}

TEST_CASE("on a device kernels of one launch write slices of several states, and of none") {
  const Schedule schedule = scheduled(Device::cuda(), [](State& s) {
    const auto turned = [&](const Tensor& x) {
      const Tensor half = slice(x, 2, 0, 32), other = slice(x, 2, 32, 64);
      return concat({half - other, half + other}, 2);
    };
    const Tensor k = turned(s.x * 2), q = turned(s.longer * 2);
    s.outputs = {updated(s.cache, k, s.at), q};
  });
  INFO(to_text(schedule));
  CHECK(updates(schedule) == 0);
  CHECK(std::ranges::any_of(schedule.steps, [](const Step& step) { return kernels_of(step).size() == 2; }));
  CHECK(slices(schedule) == 4);  // two stores each
}
