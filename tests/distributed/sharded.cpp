// Parameters in parts (distributed::fully_shard), as cases of processes.cpp.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/distributed/support.hpp"
#include "weft/explain.hpp"
#include "weft/grad_scaler.hpp"
#include "weft/io.hpp"

using namespace weft;
using distributed::Reduction;

namespace test {
namespace {

// No size is a multiple of 4, and two parameters have fewer elements than there are processes.
struct Odd {
  nn::Linear in{7, 13}, middle{13, 11}, out{11, 3};
  nn::LayerNorm norm{13};
  Param scale = ones({1}), offsets = zeros({3});
  Tensor operator()(const Tensor& x) const { return out(gelu(middle(norm(gelu(in(x)))))) * scale + offsets; }
};
struct Pair {
  nn::Linear in, out;
};
Odd odd_model() {
  seed(11);
  Odd model;
  nn::to(model, device);
  distributed::replicate(model);
  return model;
}
struct Batch {
  Tensor x, y;
};
Batch whole_batch() {
  seed(12);
  const std::int64_t rows = 6 * distributed::size();
  return {on_device(normal({rows, 7})), on_device(arange(rows) % 3)};
}
Batch own_rows(const Batch& batch) {
  const int rank = distributed::rank();
  return {slice(batch.x, 0, rank * 6, (rank + 1) * 6), slice(batch.y, 0, rank * 6, (rank + 1) * 6)};
}

std::size_t count(const std::string& text, const char* what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}
template <class F>
void expect_error(F f, const char* text, int line) {
  try {
    f();
  } catch (const Error& error) {
    if (!std::strstr(error.what(), text)) expect(false, error.what(), line);
    return;
  }
  expect(false, text, line);
}
#define EXPECT_ERROR(call, text) expect_error([&] { call; }, text, __LINE__)

// One step, of parts with this process's rows, or of a whole model with all rows: average() is then of equal values.
struct StepResult {
  Tensor loss, norm;
};
template <class Optimizer>
StepResult train_step(Odd& model, Optimizer& optimizer, const Tensor& x, const Tensor& y, double clip) {
  auto [loss, slopes] =
      value_and_grad([&](const Odd& m) { return nn::cross_entropy(distributed::gathered(m)(x), y); }, model);
  Odd gradients = distributed::average(slopes);
  Tensor norm = full({}, 0);
  if (clip > 0) norm = nn::clip_grad_norm(gradients, clip);
  optimizer.update(model, gradients);
  return {distributed::all_reduce(loss, Reduction::mean), norm};
}

template <class Optimizer, class Options>
void train(const Options& options, double clip, bool compiled, distributed::Shards shards, int line) {
  const Odd start = odd_model();
  const Batch all = whole_batch(), own = own_rows(all);
  Odd whole = start, parts = start;
  distributed::fully_shard(parts, shards);
  Optimizer for_whole(whole, options), for_parts(parts, options);
  const auto step = compile(train_step<Optimizer>);
  for (int i = 0; i < 5; ++i) {
    const StepResult a =
        compiled ? step(whole, for_whole, all.x, all.y, clip) : train_step(whole, for_whole, all.x, all.y, clip);
    const StepResult b =
        compiled ? step(parts, for_parts, own.x, own.y, clip) : train_step(parts, for_parts, own.x, own.y, clip);
    expect(near(a.loss, b.loss, 1e-5), "the loss is another", line);
    expect(near(a.norm, b.norm, 1e-4), "the norm is another", line);
  }
  tree::for_each(whole, distributed::gathered(parts),
                 [&](const char* path, const Param& a, const Param& b) { expect(near(a, b, 1e-3, 2e-5), path, line); });
  tree::for_each(for_whole, distributed::gathered(for_parts), [&](const char* path, const Buffer& a, const Buffer& b) {
    expect(near(a, b, 1e-3, 2e-5), path, line);
  });
}

}  // namespace

void sharding() {
  const int size = distributed::size(), rank = distributed::rank();
  Odd model = odd_model(), parts = model;
  distributed::fully_shard(parts);
  distributed::fully_shard(parts);  // they are parts already
  tree::for_each(model, parts, [&](const char* path, const Param& whole, const Param& part) {
    const std::int64_t length = (static_cast<std::int64_t>(whole->element_count()) + size - 1) / size;
    expect(part->rank() == 1 && part->size(0) == Dim(length), path, __LINE__);
  });
  const auto same = [&](const Odd& found, int line) {
    tree::for_each(model, found, [&](const char* path, const Param& a, const Param& b) {
      expect(equal(a.tensor(), b.tensor()), path, line);
    });
  };
  same(distributed::gathered(parts), __LINE__);
  same(compile([](const Odd& m) { return distributed::gathered(m); })(parts), __LINE__);
  const Odd none = distributed::gathered(model);
  EXPECT(none.in.weight.tensor().same(model.in.weight.tensor()));

  // The gradient of a part is this process's part of the sum of all gradients.
  const auto slopes = [](const Odd& model, const Tensor& factor) {
    return grad(
        [&](const Odd& m) {
          const Odd g = distributed::gathered(m);
          return sum(exp(g.in.weight)) * factor + sum(square(g.scale)) * 3;
        },
        model);
  };
  const Tensor factor = on_device(full({}, rank + 1.0));
  for (const bool compiled : {false, true}) {
    const Odd found = distributed::gathered(compiled ? compile(slopes)(parts, factor) : slopes(parts, factor));
    EXPECT(near(found.in.weight, exp(model.in.weight) * (size * (size + 1) / 2), 1e-5));
    EXPECT(near(found.scale, model.scale * (6 * size), 1e-5));
  }
}

void sharded_training() {
  train<optim::SGD>(optim::SgdOptions{.lr = 0.1}, 0, true, {}, __LINE__);
  train<optim::SGD>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9}, 0.5, true, {.bytes = 200}, __LINE__);
  train<optim::AdamW>(optim::AdamWOptions{.lr = 1e-2}, 0, true, {.bytes = 200}, __LINE__);
  train<optim::AdamW>(optim::AdamWOptions{.lr = 1e-2}, 0.5, true, {.reshard_after_forward = false}, __LINE__);
  train<optim::AdamW>(optim::AdamWOptions{.lr = 1e-2}, 0.5, false, {.bytes = 200}, __LINE__);
}

// Sent in bf16: near the same, with parameters and their gradients in f32.
void sharded_dtype() {
  const Batch all = whole_batch(), own = own_rows(all);
  Odd parts = odd_model();
  const Odd whole = parts;
  distributed::fully_shard(parts);
  const auto slopes = compile([](const Odd& model, const Tensor& x, const Tensor& y) {
    auto [loss, found] = value_and_grad(
        [&](const Odd& m) {
          const Odd g = distributed::gathered(m, {.dtype = DType::bf16});
          return nn::cross_entropy(cast(g(cast(x, DType::bf16)), DType::f32), y);
        },
        model);
    return distributed::average(found);
  });
  const Odd a = slopes(whole, all.x, all.y), b = distributed::gathered(slopes(parts, own.x, own.y));
  tree::for_each(a, b, [&](const char* path, const Param& one, const Param& other) {
    expect(other->dtype() == DType::f32 && near(one, other, 0.1, 0.01), path, __LINE__);
  });
}

// ---- what is planned -----------------------------------------------------------------------------------------------

namespace {

constexpr int layers = 16, width = 64;
struct Deep {
  std::vector<nn::Linear> all;
  Tensor operator()(Tensor x) const {
    for (const nn::Linear& layer : all) x = tanh(layer(x));
    return x;
  }
};
Tensor deep_step(Deep& model, optim::SGD& optimizer, const Tensor& x) {
  auto [loss, gradients] =
      value_and_grad([&](const Deep& m) { return mean(square(distributed::gathered(m)(x))); }, model);
  optimizer.update(model, distributed::average(gradients));
  return loss;
}
// The same, where each layer is gathered where it is called.
Tensor step_by_layer(Deep& model, optim::SGD& optimizer, const Tensor& x) {
  auto [loss, gradients] = value_and_grad(
      [&](const Deep& m) {
        Tensor y = x;
        for (const nn::Linear& layer : m.all) y = tanh(distributed::gathered(layer)(y));
        return mean(square(y));
      },
      model);
  optimizer.update(model, distributed::average(gradients));
  return loss;
}

}  // namespace

void sharded_plan() {
  const std::int64_t size = distributed::size();
  const std::int64_t layer_bytes = 4 * (width * width + width), whole_bytes = layers * layer_bytes;
  seed(4);
  Deep start;
  for (int i = 0; i < layers; ++i) start.all.emplace_back(width, width);
  nn::to(start, device);
  const Tensor x = on_device(normal({2, width}));
  const auto plan = [&](auto step, distributed::Shards shards, bool each_layer) {
    Deep model = start;
    if (each_layer)
      for (nn::Linear& layer : model.all) distributed::fully_shard(layer, shards);
    else
      distributed::fully_shard(model, shards);
    optim::SGD optimizer(model, {.lr = 0.1});
    const auto compiled = compile(step);
    compiled(model, optimizer, x);
    return explain(compiled, model, optimizer, x);
  };
  // On a device the parts of all gradients wait for one kernel that updates all.
  const std::int64_t waiting = device.type == Device::Type::cpu ? 0 : whole_bytes / size;
  // Back through the layers each is gathered again but for the last two, and for the first, whose operand has no
  // gradient.
  for (const Explanation& one :
       {plan(deep_step, {.bytes = layer_bytes}, false), plan(deep_step, {}, true), plan(step_by_layer, {}, true)}) {
    EXPECT(count(one.optimized, "all_gather(") == 2 * layers - 3);
    EXPECT(count(one.optimized, "reduce_scatter(") == layers);
    // A few layers: gathered as they are sent and as they are read, and gradients likewise.
    EXPECT(one.memory.temporaries - waiting < whole_bytes / 2);
    EXPECT(one.memory.arguments < whole_bytes / size + 4096);
  }
  const Explanation held = plan(deep_step, {.bytes = layer_bytes, .reshard_after_forward = false}, false);
  EXPECT(count(held.optimized, "all_gather(") == layers);
  EXPECT(count(held.optimized, "reduce_scatter(") == layers);
  EXPECT(held.memory.temporaries > whole_bytes);
}

// ---- files, and what is refused ------------------------------------------------------------------------------------

void sharded_files() {
  const std::string path = "/tmp/weft_sharded_" + std::to_string(getpid()) + ".safetensors";
  const Odd start = odd_model();
  const Batch own = own_rows(whole_batch());
  const auto step = compile(train_step<optim::AdamW>);
  Odd model = start;
  distributed::fully_shard(model);
  optim::AdamW optimizer(model, {.lr = 1e-2});
  for (int i = 0; i < 2; ++i) step(model, optimizer, own.x, own.y, 0);
  const Odd whole_model = distributed::gathered(model);
  const optim::AdamW whole_optimizer = distributed::gathered(optimizer);
  io::save(path, {{"model", whole_model}, {"optimizer", whole_optimizer}});

  Odd loaded = start, again = start;
  optim::AdamW loaded_optimizer(loaded, {.lr = 1e-2});
  io::load(path, {{"model", loaded}, {"optimizer", loaded_optimizer}});
  std::remove(path.c_str());
  distributed::fully_shard(again);
  optim::AdamW again_optimizer(again, {.lr = 1e-2});
  distributed::take_parts(again, loaded);
  distributed::take_parts(again_optimizer, loaded_optimizer);
  for (int i = 0; i < 2; ++i)
    EXPECT(equal(step(model, optimizer, own.x, own.y, 0).loss, step(again, again_optimizer, own.x, own.y, 0).loss));
  tree::for_each(model, again, [&](const char* path, const Param& a, const Param& b) {
    expect(equal(a.tensor(), b.tensor()), path, __LINE__);
  });
}

namespace {
Tensor shards_inside(Odd& model) {
  distributed::fully_shard(model);
  return sum(model.offsets);
}
}  // namespace

void sharded_refusals() {
  Odd model = odd_model(), whole = model;
  EXPECT_ERROR(distributed::fully_shard(whole, {.bytes = 0}), "bytes must be positive, it is 0");
  EXPECT_ERROR(compile(shards_inside)(whole), "call it outside");
  distributed::fully_shard(model);
  EXPECT_ERROR(distributed::replicate(model), "replicate the model before fully_shard");
  EXPECT_ERROR((void)optim::LAMB(model),
               "parameter 0 (in.weight) is part of [13,7] in 4 processes, and this optimizer");
  EXPECT_ERROR((void)optim::Adafactor(model), "[Adafactor] parameter 0 (in.weight) is part of [13,7]");
  EXPECT_ERROR((void)optim::Muon(model), "[Muon] parameter 0 (in.weight) is part of [13,7]");
  EXPECT_ERROR((void)optim::Shampoo(model), "[Shampoo] parameter 0 (in.weight) is part of [13,7]");
  EXPECT_ERROR((void)optim::LBFGS(model), "[LBFGS] parameter 0 (in.weight) is part of [13,7]");
  const std::string path = "/tmp/weft_sharded_" + std::to_string(getpid()) + ".safetensors";
  EXPECT_ERROR(io::save(path, model), "in.weight is part of [13,7] in 4 processes: save distributed::gathered(model)");
  io::save(path, whole);
  EXPECT_ERROR(io::load(path, model), "load into a whole model, then fully_shard or take_parts");
  std::remove(path.c_str());
  whole.in = nn::Linear(7, 12);
  EXPECT_ERROR(distributed::take_parts(model, whole), "in.weight is part of [13,7] in 4 processes, what it is taken");
  // Infinity in the part of one process: none takes the step.
  GradScaler scaler({.init_scale = 2});
  optim::SGD optimizer(model, {.lr = 0.1});
  Odd gradients = nn::zeros_like(model);
  const Odd before = model;
  if (distributed::rank() == 1) gradients.in.weight.tensor() = full_like(gradients.in.weight.tensor(), INFINITY);
  scaler.step(optimizer, model, scaler.unscale(gradients));
  scaler.update();
  EXPECT(equal(model.in.weight.tensor(), before.in.weight.tensor()));
}

int sharded_difference() {
  Pair model{nn::Linear(2, 5), nn::Linear(5, distributed::rank() == 2 ? 4 : 3)};
  try {
    distributed::fully_shard(model);
  } catch (const Error& error) {
    return told(error.what());
  }
  return 1;
}

}  // namespace test
