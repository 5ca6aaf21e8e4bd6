// What a plan of a device keeps of its constant arguments: where it lies, in which order it is queued, and that a
// recorded call reads it. The device is the host, with a queue that does at once what is put on it, or records it.
#include <doctest/doctest.h>

#include <functional>
#include <numeric>

#include "base/work.hpp"
#include "runtime/constants.hpp"
#include "runtime/host/steps.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using namespace weft::runtime;

namespace {

using Int = std::int64_t;
constexpr Int count = 64;
const Device device = Device::cuda();
constexpr std::size_t bytes = sizeof(float) * count;

// ---- a device -------------------------------------------------------------------------------------------------------

Queue queue{device}, recorder{device};
std::vector<std::function<void()>>* recorded = nullptr;  // what is put on the recorder
int blocks = 0, replays = 0, blocks_before_memory_ends = -1;
std::byte* arena = nullptr;  // the latest block of three values
int kept_in_arena = -1;      // how many of one value lie in it, after its first; -1: all have memory of their own

void put(const Queue* on, std::function<void()> work) {
  if (on == &recorder)
    recorded->push_back(std::move(work));
  else
    work();
}

struct Recording final : RecordedWork {
  std::vector<std::function<void()>> all;
  void replay(Queue*) const override {
    ++replays;
    for (const auto& each : all) each();
  }
};

Storage* allocate_here(Device on, std::size_t size, Queue*) {
  if (blocks == blocks_before_memory_ends) throw OutOfMemory("[allocate] no memory");
  if (size == bytes && kept_in_arena >= 0) {
    auto* const storage = new Storage;
    storage->device = on;
    storage->data = arena + static_cast<std::size_t>(++kept_in_arena) * bytes;
    storage->free = [](Storage* block) {
      --blocks;
      delete block;
    };
    ++blocks;
    return storage;
  }
  Storage* const storage = allocate(Device::cpu(), size);
  storage->device = on;
  static void (*const to_host)(Storage*) = storage->free;
  storage->free = [](Storage* block) {
    --blocks;
    block->device = Device::cpu();
    to_host(block);
  };
  ++blocks;
  if (size == 3 * bytes) arena = static_cast<std::byte*>(storage->data);
  return storage;
}

std::unique_ptr<RecordedWork> record_here(Device, std::span<const Ordered> steps, const Work& work) {
  auto recording = std::make_unique<Recording>();
  recorded = &recording->all;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].lane >= 0) work.put(i, &recorder);
  return recording;
}

class HostAsDevice {
 public:
  HostAsDevice() : before_(device_interface(device.type)) {
    replays = 0, blocks_before_memory_ends = -1, kept_in_arena = -1;
    device_interface(device.type) = {
        allocate_here, nullptr,     [](Device) {}, [](Device) {}, [](Device) { return &queue; },
        nullptr,       record_here, nullptr};
  }
  HostAsDevice(const HostAsDevice&) = delete;
  ~HostAsDevice() { device_interface(device.type) = before_; }

 private:
  const DeviceInterface before_;
};

// ---- a plan ---------------------------------------------------------------------------------------------------------

int doubled = 0;

// Buffers: x, y. y = 2 x.
struct Twice final : Runnable {
  void run(const StepCall& call) const override {
    ++doubled;
    put(call.queue, [from = static_cast<const float*>(call.pointers[0]), to = static_cast<float*>(call.pointers[1])] {
      for (Int i = 0; i < count; ++i) to[i] = 2 * from[i];
    });
  }
};
struct TwiceStep final : Preparable {
  std::unique_ptr<Runnable> prepare(const Preparation&) const override { return std::make_unique<Twice>(); }
  std::string stored_as() const override { return StoredKernel::name; }
  void write(FieldWriter& to, const EntryPoint&) const override { to(KernelFields{2, {{Dim(count)}}, {}}); }
};

// Buffers: a, b, y. y = a + b.
struct Add final : Runnable {
  void run(const StepCall& call) const override {
    const auto* const a = static_cast<const float*>(call.pointers[0]);
    const auto* const b = static_cast<const float*>(call.pointers[1]);
    put(call.queue, [a, b, y = static_cast<float*>(call.pointers[2])] {
      for (Int i = 0; i < count; ++i) y[i] = a[i] + b[i];
    });
  }
};
struct AddStep final : Preparable {
  std::unique_ptr<Runnable> prepare(const Preparation&) const override { return std::make_unique<Add>(); }
};

// y = x + x + 2 (2 w). x is argument 0, w argument 1, which is constant.
Plan plan_of_steps() {
  using Kind = PlanBuffer::Kind;
  Plan plan;
  plan.device = device;
  plan.argument_count = 2, plan.result_count = 1;
  plan.buffers = {{Kind::argument, 0, DType::f32, count},
                  {Kind::argument, 1, DType::f32, count},
                  {Kind::result, 0, DType::f32, count}};
  for (const std::size_t offset : {0, 1, 2})
    plan.buffers.push_back({Kind::temporary, 0, DType::f32, count, Dim(static_cast<Int>(offset * bytes))});
  plan.arena_bytes = static_cast<Int>(3 * bytes);
  const auto twice = std::make_shared<TwiceStep>();
  const auto add = std::make_shared<AddStep>();
  const std::vector<bool> last_of_two{false, true}, last_of_three{false, false, true};
  plan.launches = {{"add", {0, 0, 3}, {}, add, last_of_three},
                   {"twice", {1, 4}, {}, twice, last_of_two},
                   {"twice", {4, 5}, {}, twice, last_of_two},
                   {"add", {3, 5, 2}, {}, add, last_of_three}};
  plan.constant_arguments = {1};
  prepare(plan);
  return plan;
}

// A value with a key of its own, which counts who holds it.
struct Weight {
  std::vector<float> values;
  std::shared_ptr<int> owner = std::make_shared<int>();
  explicit Weight(float first) : values(count) { std::iota(values.begin(), values.end(), first); }
  long holders() const { return owner.use_count() - 1; }
};
std::shared_ptr<const void> hold(const void* context, std::size_t) {
  return static_cast<const Weight*>(context)->owner;
}

// Inputs and results at the same places in every call, as recordings want them.
struct Calls {
  Plan plan = plan_of_steps();
  std::vector<float> x = std::vector<float>(count), y = std::vector<float>(count);
  bool is_right(Weight& weight, bool known = true) {
    for (float& each : x) each += 1;
    void* const arguments[] = {x.data(), weight.values.data()};
    void* const results[] = {y.data()};
    const void* const keys[] = {weight.owner.get()};
    run(plan, arguments, results, {}, nullptr, {}, false, known ? ConstantKeys{keys, hold, &weight} : ConstantKeys{});
    bool right = true;
    for (std::size_t i = 0; i < y.size(); ++i) right &= y[i] == 2 * x[i] + 4 * weight.values[i];
    return right;
  }
};

}  // namespace

TEST_CASE("on a device kernels of constants run once, also where calls are replayed") {
  const HostAsDevice here;
  Calls calls;
  Weight weight(1);
  doubled = 0;
  CHECK(calls.is_right(weight));
  CHECK(doubled == 2);
  CHECK(kept_bytes(calls.plan) == 0);
  CHECK(calls.is_right(weight));
  CHECK(doubled == 4);
  CHECK(kept_bytes(calls.plan) == 2 * bytes);
  for (int i = 0; i < 6; ++i) CHECK(calls.is_right(weight));
  CHECK(doubled == 4);
  CHECK(replays >= 4);
  CHECK(weight.holders() > 0);
}

TEST_CASE("on a device other constants are seen at once, and what was kept of the ones before is given back") {
  const HostAsDevice here;
  {
    Calls calls;
    Weight first(1), second(2);
    for (int i = 0; i < 5; ++i) CHECK(calls.is_right(first));
    const int before = blocks;
    for (int i = 0; i < 5; ++i) CHECK(calls.is_right(second));
    CHECK(blocks == before);
    CHECK(first.holders() == 0);
    for (int i = 0; i < 12; ++i) {
      CHECK(calls.is_right(first));
      CHECK(calls.is_right(second));
      CHECK(calls.is_right(first, false));
    }
  }
  CHECK(blocks == 0);
}

TEST_CASE("a recording that leaves steps out is not replayed by a call without what is kept, at the same places") {
  const HostAsDevice here;
  Calls calls;
  Weight weight(1);
  kept_in_arena = 0;
  for (int i = 0; i < 6; ++i) CHECK(calls.is_right(weight));
  for (int i = 0; i < 6; ++i) CHECK(calls.is_right(weight, false));
  const int so_far = replays;
  for (float& each : weight.values) each += 1;  // a call without keys promises nothing
  for (int i = 0; i < 3; ++i) CHECK(calls.is_right(weight, false));
  CHECK(replays == so_far + 3);
}

TEST_CASE("on a device without memory for what would be kept, calls run without") {
  const HostAsDevice here;
  Calls calls;
  Weight weight(1);
  CHECK(calls.is_right(weight));
  blocks_before_memory_ends = blocks;
  for (int i = 0; i < 5; ++i) CHECK(calls.is_right(weight));
  CHECK(kept_bytes(calls.plan) == 0);
  CHECK(weight.holders() == 0);
}
