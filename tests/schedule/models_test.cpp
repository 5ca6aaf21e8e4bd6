// The schedules of the models that bench/ measures, on both kinds of device: bytes moved and memory.
#include <doctest/doctest.h>

#include "bench/functions.hpp"
#include "bench/mlp.hpp"
#include "pipeline.hpp"
#include "tests/schedule/traced.hpp"

using namespace weft;
using test::Traced;

namespace {

// Every tensor of a model or an optimizer becomes an input, and back come the values that it has then.
template <class T>
void bind(Traced& t, T& object, Device device) {
  detail::LeafList list;
  detail::flatten(object, list);
  for (const detail::Leaf& leaf : list.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) {
      const Type type = type_of(leaf.tensor());
      leaf.tensor() = t.input(device, type.shape, type.dtype);
    }
}
template <class T>
void give(std::vector<Tensor>& outputs, T& object) {
  detail::LeafList list;
  detail::flatten(object, list);
  for (const detail::Leaf& leaf : list.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined() && leaf.tensor().node()->op != Op::input)
      outputs.push_back(leaf.tensor());
}

// What a kernel moves where no element of a buffer is fetched twice, in bytes.
std::int64_t bytes_moved(const loop::Kernel& kernel) {
  const Dim outer = kernel.outer_count(), all = outer * kernel.inner_count();
  std::vector<std::int64_t> elements(kernel.buffers.size(), 0);
  for (const loop::Instruction& it : kernel.body)
    if (it.kind == loop::Kind::load || it.kind == loop::Kind::store)
      elements[static_cast<std::size_t>(it.buffer)] += loop::over_symbols(it.level == loop::Level::inner   ? all
                                                                          : it.level == loop::Level::outer ? outer
                                                                                                           : 1,
                                                                          kernel)
                                                           .constant();
  std::int64_t bytes = 0;
  for (std::size_t b = 0; b < elements.size(); ++b)
    bytes += storage_bytes(info(kernel.buffers[b].dtype), std::min(elements[b], kernel.buffers[b].elements.constant()));
  return bytes;
}

// Nothing is read before it is written.
void check_order(const Schedule& schedule) {
  using Kind = ScheduleBuffer::Kind;
  std::vector<bool> written(schedule.buffers.size(), false);
  for (const Step& step : schedule.steps) {
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const auto b = static_cast<std::size_t>(step.buffers[i]);
      const Kind kind = schedule.buffers[b].kind;
      if (!writes[i] && (kind == Kind::temporary || kind == Kind::result)) CHECK(written[b]);
    }
    for (std::size_t i = 0; i < writes.size(); ++i)
      if (writes[i]) written[static_cast<std::size_t>(step.buffers[i])] = true;
  }
}

struct Planned {
  std::size_t steps = 0;
  double bytes = 0, arena = 0;  // megabytes
};
Planned plan(const Graph& graph, Device device) {
  Schedule schedule = make_schedule(optimize(graph, {}), device, providers::all());
  plan_memory(schedule, device);
  check_order(schedule);
  Planned result{schedule.steps.size()};
  for (const Step& step : schedule.steps) {
    const loop::Kernel* const kernel = step.payload->kernel();
    const bool alone = kernel && kernel->buffers.size() == step.buffers.size();  // else a table of several
    result.bytes += 1e-6 * static_cast<double>(alone ? bytes_moved(*kernel) : step.payload->cost().bytes.constant());
  }
  result.arena = 1e-6 * static_cast<double>(schedule.arena_bytes.constant());
  return result;
}

Graph gpt_step(Device device, bench::Gpt::Sizes sizes, std::int64_t batch, DType dtype) {
  bench::Gpt model(sizes, {});
  optim::AdamW optimizer(model);
  Traced t;
  bind(t, model, device);
  bind(t, optimizer, device);
  const Shape text = Shape::of(batch, sizes.context);
  const Tensor x = t.input(device, text, DType::i64), y = t.input(device, text, DType::i64);
  std::vector<Tensor> outputs{bench::train_gpt(model, optimizer, x, y, dtype)};
  give(outputs, model);
  give(outputs, optimizer);
  return t.graph(outputs);
}
Graph encoder(Device device, std::int64_t batch, std::int64_t time, int layers, DType dtype) {
  std::vector<bench::Block> blocks;
  for (int i = 0; i < layers; ++i) blocks.emplace_back(768, 12, false, Options{dtype});
  Traced t;
  bind(t, blocks, device);
  Tensor x = t.input(device, Shape::of(batch, time, 768), dtype);
  for (const bench::Block& block : blocks) x = block(x);
  return t.graph({x});
}
Graph mlp_step(Device device, std::int64_t batch) {
  bench::Mlp model;
  optim::Adam optimizer(model);
  Traced t;
  bind(t, model, device);
  bind(t, optimizer, device);
  const Tensor x = t.input(device, Shape::of(batch, 784)), y = t.input(device, Shape::of(batch), DType::i64);
  std::vector<Tensor> outputs{bench::train(model, optimizer, x, y)};
  give(outputs, model);
  give(outputs, optimizer);
  return t.graph(outputs);
}
Graph norm(Device device, DType dtype, std::int64_t rows, std::int64_t width) {
  bench::NormOf it{zeros({rows, width}, Options{dtype}), bench::Norm(width, Options{dtype})};
  Traced t;
  bind(t, it, device);
  bench::NormGradients result = bench::norm_gradients(it, t.input(device, Shape::of(rows, width), dtype));
  std::vector<Tensor> outputs{result.result};
  give(outputs, result.gradients);
  return t.graph(outputs);
}
Graph cross_entropy(Device device) {
  Traced t;
  const Tensor logits = t.input(device, Shape::of(8192, 50304), DType::bf16);
  auto [loss, gradient] = bench::cross_entropy_gradients(logits, t.input(device, Shape::of(8192), DType::i64));
  return t.graph({loss, gradient});
}
// Levels of channels that double while images shrink, and each level's value is read again on the way back.
Graph unet(Device device) {
  Traced t;
  Tensor x = t.input(device, Shape::of(8, 64 * 64, 16));
  std::vector<Tensor> skipped;
  const auto layer = [&](const Tensor& x, std::int64_t out) {
    const Tensor w = t.input(device, Shape::of(type_of(x).shape[2], out));
    return relu(matmul(x, w) + t.input(device, Shape::of(out)));
  };
  for (int level = 0; level < 4; ++level) {
    x = layer(x, 16 << level);
    skipped.push_back(x);
    const Dim pixels = type_of(x).shape[1], channels = type_of(x).shape[2];
    x = amax(reshape(x, {8, pixels / 4, 4, channels}), 2);
  }
  for (int level = 4; level-- > 0;) {
    const Dim pixels = type_of(x).shape[1], channels = type_of(x).shape[2];
    x = reshape(expand(reshape(x, {8, pixels, 1, channels}), {8, pixels, 4, channels}), {8, pixels * 4, channels});
    x = layer(concat({x, skipped[static_cast<std::size_t>(level)]}, 2), 16 << level);
  }
  return t.graph({x});
}

}  // namespace

TEST_CASE("schedules of the models of bench/ move no more bytes than they did, and take no more memory") {
  struct Bars {
    double bytes, arena;  // megabytes
  };
  struct Model {
    const char* name;
    Graph (*graph)(Device);
    Bars cpu, cuda;
  };
  // A product of 16-bit floats on the host depends on the libraries there.
  static constexpr Model models[] = {
      {"gpt d128",
       [](Device device) {
         return gpt_step(device, {65, 64, 128, 4, 4}, 8, DType::f32);
       },
       {185.262, 20.5298},
       {189.61, 20.5298}},
      {"gpt d384",
       [](Device device) {
         return gpt_step(device, {65, 256, 384, 6, 6}, 4, DType::f32);
       },
       {1991.15, 199.216},
       {2030.2, 199.216}},
      {"gpt bf16",
       [](Device device) {
         return gpt_step(device, {50304, 1024, 768, 12, 12}, 16, DType::bf16);
       },
       {},
       {103784, 11639.7}},
      {"encoder", [](Device device) { return encoder(device, 64, 128, 12, DType::bf16); }, {}, {8034.43, 88.0804}},
      {"mlp 64", [](Device device) { return mlp_step(device, 64); }, {9.98357, 0.868352}, {9.98357, 1.00467}},
      {"mlp 1024", [](Device device) { return mlp_step(device, 1024); }, {30.758, 2.53645}, {30.7707, 3.0199}},
      {"norm f32",
       [](Device device) { return norm(device, DType::f32, 4096, 1024); },
       {68.1738, 0.524288},
       {75.514, 4.19431}},
      {"norm bf16",
       [](Device device) { return norm(device, DType::bf16, 16384, 4096); },
       {553.681, 8.38861},
       {553.682, 8.38861}},
      {"cross entropy", [](Device device) { return cross_entropy(device); }, {1648.56, 0.032768}, {1648.56, 0.032768}},
      {"unet", [](Device device) { return unet(device); }, {50.8097, 9.43719}, {50.8097, 9.43719}},
  };
  for (const Model& model : models)
    for (const Device device : {Device::cpu(), Device::cuda()}) {
      const bool on_host = device.type == Device::Type::cpu;
      const Bars bars = on_host ? model.cpu : model.cuda;
      if (bars.bytes == 0) continue;
      const Planned planned = plan(model.graph(device), device);
      INFO(std::string(model.name), on_host ? std::string(" cpu: ") : std::string(" cuda: "), planned.steps, " steps, ",
           planned.bytes, " MB moved, ", planned.arena, " MB of memory");
      CHECK(planned.bytes <= bars.bytes * 1.00001);
      CHECK(planned.arena <= bars.arena * 1.00001);
    }
}
