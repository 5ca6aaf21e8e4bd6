// data_parallel [--batch B] [--time T] [--layers N] [--width W] [--steps S] [--cpu] [--sharded | --sharded-bf16]:
// training steps of GPT-2 (124M unless said otherwise) in as many processes as a launcher has started, one device each,
// under autocast to bf16. Each process has a batch of B, so the work of a process does not depend on their number. With
// --sharded each process holds its part of the parameters and moments (fully_shard, a group a block), with
// --sharded-bf16 sent in bf16. Prints JSON from rank 0:
// milliseconds of a step, the median over S, the loss, and the bytes of the arguments and of what a call takes beside
// them. tools/measure does not run it: two machines' worth of devices are rare (tests/distributed/run_gpu).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "examples/models/gpt2.hpp"
#include "weft/distributed.hpp"
#include "weft/explain.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

std::optional<DType> sent_as;

Tensor step_of(models::Gpt2& model, optim::AdamW& optimizer, const Tensor& tokens, const Tensor& next) {
  auto [loss, gradients] = value_and_grad(
      [&](const models::Gpt2& m) {
        const Tensor logits = distributed::gathered(m, {.dtype = sent_as})(tokens);
        return nn::cross_entropy(reshape(logits, {-1, logits.size(2)}), reshape(next, {-1}));
      },
      model);
  optimizer.update(model, distributed::average(gradients));
  return distributed::all_reduce(loss, distributed::Reduction::mean);
}

}  // namespace

int main(int argc, char** argv) try {
  std::int64_t batch = 16, time = 1024, steps = 30;
  models::Gpt2Config config{.dropout = 0};
  bool cpu = false, sharded = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--cpu") {
      cpu = true;
      continue;
    }
    if (option == "--sharded" || option == "--sharded-bf16") {
      sharded = true;
      if (option == "--sharded-bf16") sent_as = DType::bf16;
      continue;
    }
    const std::int64_t value = i + 1 < argc ? std::atoll(argv[++i]) : 0;
    std::int64_t* const to = option == "--batch"    ? &batch
                             : option == "--time"   ? &time
                             : option == "--layers" ? &config.layers
                             : option == "--width"  ? &config.width
                             : option == "--steps"  ? &steps
                                                    : nullptr;
    if (!to || value < 1) return std::fprintf(stderr, "data_parallel: what is %s?\n", option.c_str()), 2;
    *to = value;
  }
  distributed::init();
  const Device device = cpu ? Device::cpu() : Device::cuda(distributed::local_rank());
  seed(1);
  models::Gpt2 model(config);
  nn::to(model, device);
  if (sharded) {
    for (models::Gpt2Block& block : model.h) distributed::fully_shard(block, {.bytes = 64 << 20});
    distributed::fully_shard(model);
  }
  optim::AdamW optimizer(model, {.lr = 1e-4});
  if (!cpu) optimizer.steps = Scalar(to(optimizer.steps.tensor(), device));
  seed(2 + static_cast<std::uint64_t>(distributed::rank()));
  const Tensor text = to(randint({batch, time + 1}, 0, config.vocab_size), device);
  const Tensor tokens = slice(text, 1, 0, time).eval(), next = slice(text, 1, 1, time + 1).eval();
  const auto step = compile(step_of, {.check = Check::never, .autocast = DType::bf16});
  std::vector<double> milliseconds;
  double loss = 0;
  constexpr int warm_up = 8;
  for (std::int64_t i = 0; i < warm_up + steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    loss = step(model, optimizer, tokens, next).item();  // waits for the device
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (i >= warm_up) milliseconds.push_back(took.count());
  }
  std::ranges::nth_element(milliseconds, milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2));
  const auto memory = explain(step, model, optimizer, tokens, next).memory;
  if (distributed::rank() == 0)
    std::printf(
        "{\"name\": \"%s\", \"processes\": %d, \"batch\": %lld, \"time\": %lld, \"step_ms\": %.3f, \"loss\": %.6f, "
        "\"argument_bytes\": %lld, \"taken_bytes\": %lld}\n",
        !sharded  ? "gpu-ddp"
        : sent_as ? "gpu-fsdp-bf16"
                  : "gpu-fsdp",
        distributed::size(), static_cast<long long>(batch), static_cast<long long>(time),
        milliseconds[milliseconds.size() / 2], loss, static_cast<long long>(memory.arguments),
        static_cast<long long>(memory.taken));
} catch (const std::exception& error) {
  std::fprintf(stderr, "rank %d: %s\n", distributed::rank(), error.what());
  return 1;
}
