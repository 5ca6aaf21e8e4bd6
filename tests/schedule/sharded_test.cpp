// Training with parameters in parts (distributed::fully_shard) on a device: what is planned, without a device and
// without another process.
#include <doctest/doctest.h>

#include <algorithm>

#include "examples/models/gpt2.hpp"
#include "pipeline.hpp"
#include "runtime/processes/process_group.hpp"
#include "schedule/places.hpp"
#include "tests/schedule/traced.hpp"
#include "weft/distributed.hpp"

using namespace weft;
using test::Traced;

namespace {

const Device gpu = Device::cuda();
constexpr std::int64_t layers = 6, width = 256, time = 128, batch = 16, vocabulary = 8000;
constexpr std::int64_t bucket_bytes = 4 << 20;  // a layer and a bit

// Rank 0 of two processes, which agree.
class TwoProcesses final : public runtime::ProcessGroup {
 public:
  TwoProcesses() : ProcessGroup({0, 2, 0}) {}

 protected:
  void carry_out(const CollectiveOperation&, std::int64_t, const void*, void*, const std::string&) override {
    throw Error("nothing is sent in this test");
  }
  std::vector<std::string> gather(const std::string& given, const std::string&, std::chrono::seconds) override {
    return {given, given};
  }
};
void join() {
  if (!runtime::process_group()) runtime::set_process_group(std::make_unique<TwoProcesses>());
}

template <class T, class F>
void each_tensor(T& object, F f) {
  detail::LeafList list;
  detail::flatten(object, list);
  for (const detail::Leaf& leaf : list.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) f(leaf.tensor());
}
std::int64_t bytes_of(const Tensor& value) {
  return storage_bytes(info(type_of(value).dtype), type_of(value).shape.element_count()).constant();
}

struct Planned {
  Schedule schedule;
  std::vector<Lifetime> lives;  // by buffer
  std::int64_t arguments = 0;   // bytes
  std::int64_t temporaries() const { return schedule.arena_bytes.constant(); }
  std::int64_t bytes(int buffer) const {
    const ScheduleBuffer& it = schedule.buffers[static_cast<std::size_t>(buffer)];
    return storage_bytes(info(it.dtype), it.elements).constant();
  }
};

// A training step of the model, whose loss `loss_of(model)` is.
template <class Model, class Optimizer, class F>
Planned plan(Model model, Optimizer optimizer, F loss_of) {
  Planned made;
  Traced t;
  const auto bind = [&](Tensor& value) {
    made.arguments += bytes_of(value);
    const Type type = type_of(value);
    value = t.input(gpu, type.shape, type.dtype);
  };
  each_tensor(model, bind);
  each_tensor(optimizer, bind);
  std::vector<Tensor> outputs;
  {
    const Autocast scope(DType::bf16);
    auto [loss, gradients] = value_and_grad([&](const Model& m) { return loss_of(t, m); }, model);
    optimizer.update(model, distributed::average(gradients, {.bytes = bucket_bytes}));
    outputs.push_back(distributed::all_reduce(loss, distributed::Reduction::mean));
  }
  const auto give = [&](Tensor& value) {
    if (value.node()->op != Op::input) outputs.push_back(value);
  };
  each_tensor(model, give);
  each_tensor(optimizer, give);
  made.schedule = make_schedule(optimize(t.graph(outputs), {}), gpu, providers::all());
  plan_memory(made.schedule, gpu);
  made.lives = lifetimes(made.schedule);
  return made;
}

Planned gpt2(bool in_parts, std::optional<DType> sent_as = {}) {
  join();
  seed(1);
  models::Gpt2 model(
      {.vocab_size = vocabulary, .context = time, .width = width, .layers = layers, .heads = 4, .dropout = 0});
  if (in_parts) {
    for (models::Gpt2Block& block : model.h) distributed::fully_shard(block);
    distributed::fully_shard(model.wte);
    distributed::fully_shard(model);
  }
  return plan(model, optim::AdamW(model, {.lr = 1e-4}), [&](Traced& t, const models::Gpt2& m) {
    const Tensor tokens = t.input(gpu, Shape::of(batch, time), DType::i64);
    const Tensor next = t.input(gpu, Shape::of(batch, time), DType::i64);
    const Tensor logits = distributed::gathered(m, {.dtype = sent_as})(tokens);
    return nn::cross_entropy(reshape(logits, {-1, vocabulary}), reshape(next, {-1}));
  });
}

struct Deep {
  std::vector<nn::Linear> all;
  Tensor operator()(Tensor x) const {
    for (const nn::Linear& layer : all) x = tanh(layer(x));
    return x;
  }
};

// Gathers of parameters, in order: the step, and the first and last that read what it gives.
struct Gather {
  int step, first = -1, last = -1;
};
std::vector<Gather> gathers_of(const Planned& planned) {
  std::vector<Gather> found;
  for (std::size_t s = 0; s < planned.schedule.steps.size(); ++s) {
    const Step& step = planned.schedule.steps[s];
    if (!step.payload->is_late()) continue;
    const int buffer = step.buffers.back();
    Gather gather{static_cast<int>(s)};
    for (std::size_t reader = s + 1; reader < planned.schedule.steps.size(); ++reader)
      if (std::ranges::count(planned.schedule.steps[reader].buffers, buffer)) {
        if (gather.first < 0) gather.first = static_cast<int>(reader);
        gather.last = static_cast<int>(reader);
      }
    found.push_back(gather);
  }
  return found;
}
int products_between(const Planned& planned, int from, int to) {
  int count = 0;
  for (int s = from; s < to; ++s) count += planned.schedule.steps[static_cast<std::size_t>(s)].name == "matmul";
  return count;
}

}  // namespace

TEST_CASE("on a device a step of a model in parts takes less memory than one of the whole model") {
  const Planned whole = gpt2(false);
  for (const std::optional<DType> sent_as : {std::optional<DType>(), std::optional(DType::bf16)}) {
    const Planned parts = gpt2(true, sent_as);
    INFO("whole ", whole.arguments, " and ", whole.temporaries(), ", in parts ", parts.arguments, " and ",
         parts.temporaries());
    CHECK(parts.arguments < whole.arguments * 51 / 100);
    // What is computed again for the derivative reads no activation that the whole model does not save.
    CHECK(parts.temporaries() < whole.temporaries());
  }
}

TEST_CASE("on a device few gathered parameters are there at once, and the next are on their way") {
  const Planned planned = gpt2(true);
  const std::vector<Gather> gathers = gathers_of(planned);
  // Two embeddings, each layer, the embedding for the logits, and back each layer but the last.
  REQUIRE(gathers.size() == 2 + layers + 1 + (layers - 1));
  for (std::size_t i = 2; i + 2 < gathers.size(); ++i) {  // one kernel reads both embeddings and the first layer
    CAPTURE(i);
    CHECK(gathers[i].first > gathers[i].step);
    CHECK(gathers[i + 2].step > gathers[i].first);  // at most one ahead
  }
  // From the second layer on, products are computed while a gather is on its way.
  for (std::size_t i = 3; i < gathers.size(); ++i) {
    CAPTURE(i);
    CHECK(products_between(planned, gathers[i].step, gathers[i].first) >= 2);
  }
  // What several gathers give, at any time.
  for (int s = 0; s < static_cast<int>(planned.schedule.steps.size()); ++s)
    CHECK(std::ranges::count_if(gathers, [&](const Gather& it) { return it.step <= s && s <= it.last; }) <= 3);
}

TEST_CASE("on a device what is packed to be sent is one kernel") {
  const Planned planned = gpt2(true);
  for (std::size_t s = 0; s < planned.schedule.steps.size(); ++s) {
    const Step& step = planned.schedule.steps[s];
    if (!step.payload->is_collective() || step.name == "all_reduce_start") continue;
    const int sent = step.buffers.front();
    std::ptrdiff_t writers = 0;
    for (std::size_t before = 0; before < s; ++before) {
      const Step& other = planned.schedule.steps[before];
      const std::vector<bool> writes = other.payload->writes(other.buffers.size());
      bool is_writer = false;
      for (std::size_t b = 0; b < writes.size(); ++b) is_writer |= writes[b] && other.buffers[b] == sent;
      writers += is_writer;
    }
    CHECK(writers <= 1);
  }
}

TEST_CASE("on a device what a collective reads is nobody else's before the next collective") {
  const Planned planned = gpt2(true);
  const Schedule& schedule = planned.schedule;
  int open = -1, checked = 0;  // the last collective
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    if (step.payload->is_collective()) {
      open = static_cast<int>(s);
      continue;
    }
    if (open < 0) continue;
    const int sent = schedule.steps[static_cast<std::size_t>(open)].buffers.front();
    const ScheduleBuffer& packet = schedule.buffers[static_cast<std::size_t>(sent)];
    if (packet.kind != ScheduleBuffer::Kind::temporary) continue;
    const std::int64_t begin = packet.offset.constant(), end = begin + planned.bytes(sent);
    for (const int b : step.buffers) {
      const ScheduleBuffer& other = schedule.buffers[static_cast<std::size_t>(b)];
      if (b == sent || other.kind != ScheduleBuffer::Kind::temporary) continue;
      const bool apart = other.offset.constant() >= end || other.offset.constant() + planned.bytes(b) <= begin;
      CHECK(apart);
      ++checked;
    }
  }
  CHECK(checked > 100);
}

TEST_CASE("on a device updates come in the order of the collectives that they wait for") {
  for (const bool in_parts : {false, true}) {
    const Planned planned = gpt2(in_parts);
    const std::vector<Step>& steps = planned.schedule.steps;
    std::vector<int> writer(planned.schedule.buffers.size(), -1);
    int last = -1, count = 0;
    for (std::size_t s = 0; s + 1 < steps.size();
         ++s) {  // the last one counts the steps, after all that read the count
      const std::vector<bool> writes = steps[s].payload->writes(steps[s].buffers.size());
      int latest = -1;
      for (std::size_t b = 0; b < writes.size(); ++b) {
        const auto buffer = static_cast<std::size_t>(steps[s].buffers[b]);
        if (steps[s].payload->is_collective() && writes[b]) writer[buffer] = static_cast<int>(s);
        if (!writes[b]) latest = std::max(latest, writer[buffer]);
      }
      if (steps[s].name.find("AdamW") == std::string::npos || latest < 0) continue;
      CHECK(latest >= last);
      last = latest;
      ++count;
    }
    CHECK(count >= 8);
  }
}

TEST_CASE("on a device the gradient of a table of words is sent before the gradients that no other waits for") {
  const Planned planned = gpt2(false);
  const std::vector<Step>& steps = planned.schedule.steps;
  const std::int64_t table_bytes = vocabulary * width * 4;
  int sent = -1;
  for (std::size_t s = 0; s < steps.size(); ++s)
    if (steps[s].payload->is_collective() && planned.bytes(steps[s].buffers.front()) >= table_bytes)
      sent = static_cast<int>(s);
  REQUIRE(sent >= 0);
  // Those of weights of the first layers.
  CHECK(products_between(planned, sent, static_cast<int>(steps.size())) >= 4);
}

// The model of tests/distributed/sharded.cpp, which the same must hold of on two devices.
TEST_CASE("on a device a deep model of small layers in parts takes a few layers") {
  join();
  constexpr int deep = 16, of_layer = 64;
  const std::int64_t whole_bytes = deep * 4 * (of_layer * of_layer + of_layer);
  for (const bool each_layer : {false, true}) {
    seed(4);
    Deep model;
    for (int i = 0; i < deep; ++i) model.all.emplace_back(of_layer, of_layer);
    const distributed::Shards shards{.bytes = whole_bytes / deep};
    if (each_layer)
      for (nn::Linear& layer : model.all) distributed::fully_shard(layer);
    else
      distributed::fully_shard(model, shards);
    const Planned planned = plan(model, optim::SGD(model, {.lr = 0.1}), [](Traced& t, const Deep& m) {
      return mean(square(distributed::gathered(m)(t.input(gpu, Shape::of(2, of_layer)))));
    });
    INFO(planned.temporaries(), " bytes of ", whole_bytes);
    // The parts of all gradients wait for one kernel that updates all.
    CHECK(planned.temporaries() - whole_bytes / 2 < whole_bytes / 3);
  }
}
