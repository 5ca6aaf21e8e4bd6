// offload plain|offload|checkpoint|both [LAYERS [BATCH [TIME [f32]]]]: the training step of a GPT of width 768 on a
// CUDA device, bf16 by default: its temporaries as they are planned, what the device has less of free, the time of a
// step, and losses, which are the same for `plain` and `offload`. A process each, as memory is kept. A JSON line.
#include <cstring>

#include "functions.hpp"
#include "runtime/cuda/device.hpp"
#include "support.hpp"
#include "weft/checkpoint.hpp"
#include "weft/offload.hpp"

namespace {

using weft::DType;
using weft::Tensor;

enum class How : int { plain, offload, checkpoint, both };
constexpr const char* names[] = {"plain", "offload", "checkpoint", "both"};

Tensor logits(const bench::Gpt& m, const Tensor& text, How how) {
  Tensor x = gather(m.tokens, text) + slice(m.places, 0, 0, text.size(1));
  for (const bench::Block& block : m.blocks) {
    const auto run = [&](const Tensor& x) { return block(x); };
    if (how == How::plain) x = run(x);
    if (how == How::offload) x = weft::offload(run)(x);
    if (how == How::checkpoint) x = weft::checkpoint(run)(x);
    if (how == How::both) x = weft::offload(weft::checkpoint(run))(x);
  }
  return matmul(m.last(x), transpose(m.tokens));
}

Tensor train(bench::Gpt& model, weft::optim::AdamW& optimizer, const Tensor& text, const Tensor& labels, How how,
             DType dtype) {
  auto [loss, gradients] = weft::value_and_grad(
      [&](const bench::Gpt& given) {
        bench::Gpt cast_to = given;
        for (auto& parameter : weft::nn::parameters(cast_to)) parameter.value = cast(parameter.value, dtype);
        return bench::cross_entropy(logits(cast_to, text, how), labels);
      },
      model);
  optimizer.update(model, gradients);
  return loss;
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  weft::runtime::cuda::check(weft::runtime::cuda::driver().cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
  return free;
}

}  // namespace

int main(int count, char** arguments) {
  const auto number = [&](int at, std::int64_t otherwise) {
    return count > at ? std::atoll(arguments[at]) : otherwise;
  };
  const auto found = std::find_if(std::begin(names), std::end(names),
                                  [&](const char* n) { return count > 1 && !std::strcmp(n, arguments[1]); });
  if (found == std::end(names)) return std::fprintf(stderr, "offload plain|offload|checkpoint|both\n"), 2;
  const How how{static_cast<int>(found - names)};
  const std::int64_t layers = number(2, 12), batch = number(3, 16), time = number(4, 1024);
  const DType dtype = count > 5 && !std::strcmp(arguments[5], "f32") ? DType::f32 : DType::bf16;
  constexpr weft::Device device = weft::Device::cuda();
  weft::runtime::cuda::use(device);
  const std::size_t before = free_bytes();
  bench::Gpt model({.context = time, .layers = layers, .fused = true}, {DType::f32, device});
  weft::optim::AdamW optimizer(model, {.lr = 1e-4});
  optimizer.steps = weft::Scalar(to(optimizer.steps.tensor(), device));
  weft::Generator generator(8);
  const auto text = [&] {
    return cast(weft::uniform({batch, time}, 0, 50257, generator, {DType::f32, device}), DType::i64).eval();
  };
  const Tensor x = text(), y = text();
  auto step = weft::compile(train, {.check = weft::Check::never});
  const auto call = [&] { return step(model, optimizer, x, y, how, dtype).eval(); };
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(to(call(), weft::Device::cpu()).item<double>());  // and it is recorded
  weft::runtime::cuda::synchronize(device);
  constexpr int calls = 20;
  const auto start = bench::Clock::now();
  Tensor last;
  for (int i = 0; i < calls; ++i) last = call();
  weft::runtime::cuda::synchronize(device);
  const double seconds = bench::seconds_since(start) / calls;
  losses.push_back(to(last, weft::Device::cpu()).item<double>());
  const weft::Explanation e = explain(step, model, optimizer, x, y, how, dtype);
  const auto copies = std::count(e.memory.steps.begin(), e.memory.steps.end(), "offload") / 2;
  std::printf(
      R"({"how": "%s", "layers": %lld, "batch": %lld, "time": %lld, "dtype": "%s", "steps": %zu, "offloaded": %lld, )"
      R"("temporaries_mib": %.1f, "host_mib": %.1f, "device_mib": %.1f, "ms": %.3f, "losses": [%.9g, %.9g, %.9g, %.9g, %.9g]})"
      "\n",
      *found, static_cast<long long>(layers), static_cast<long long>(batch), static_cast<long long>(time),
      info(dtype).name, e.memory.steps.size(), static_cast<long long>(copies),
      static_cast<double>(e.memory.temporaries) / (1 << 20), static_cast<double>(e.memory.offloaded) / (1 << 20),
      static_cast<double>(before - free_bytes()) / (1 << 20), seconds * 1e3, losses[0], losses[1], losses[2], losses[3],
      losses[4]);
}
