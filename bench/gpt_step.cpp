// gpt_step d128|d384 [first|memory|bf16|f16|time [BUDGET [O3]]]: the whole training step of a character GPT with AdamW,
// in f32 or under autocast, taking turns (support.hpp); with `first` only the seconds of its first call; with `memory`
// the most bytes that a call holds beside parameters and moments, and how many were planned. BUDGET:
// CompileOptions::memory_budget. O3: at that level.
#include <cstdlib>
#include <cstring>

#include "functions.hpp"
#include "support.hpp"
#include "weft/memory.hpp"

int main(int count, char** arguments) {
  const bool small = count < 2 || !std::strcmp(arguments[1], "d128");
  const std::int64_t vocabulary = 65, batch = small ? 8 : 4, time = small ? 64 : 256;
  bench::Gpt model(
      small ? bench::Gpt::Sizes{vocabulary, time, 128, 4, 4} : bench::Gpt::Sizes{vocabulary, time, 384, 6, 6}, {});
  weft::optim::AdamW optimizer(model);
  bench::eval_all(model);
  bench::eval_all(optimizer);
  const auto text = [&](unsigned seed) {
    return reshape(bench::random_labels(batch * time, vocabulary, seed), {batch, time}).eval();
  };
  const weft::Tensor x = text(1), y = text(2);
  weft::CompileOptions how;
  for (const weft::DType type : {weft::DType::bf16, weft::DType::f16})
    if (count > 2 && info(type).name == std::string_view(arguments[2])) how.autocast = type;
  if (count > 3) how.memory_budget = std::strtod(arguments[3], nullptr);
  if (count > 4 && !std::strcmp(arguments[4], "O3")) how.level = weft::Level::O3;
  auto step = weft::compile([](bench::Gpt& m, weft::optim::AdamW& o, const weft::Tensor& x,
                               const weft::Tensor& y) { return bench::train_gpt(m, o, x, y, weft::DType::f32); },
                            how);
  const auto call = [&] { step(model, optimizer, x, y).eval(); };
  if (count > 2 && !std::strcmp(arguments[2], "first")) {
    const auto start = bench::Clock::now();
    call();
    std::printf("%.6f\n", bench::seconds_since(start));
    return 0;
  }
  if (count > 2 && !std::strcmp(arguments[2], "memory")) {
    const auto settle = [&] {
      call();
      bench::eval_all(model);
      bench::eval_all(optimizer);
    };
    settle();  // moments get memory
    const std::int64_t temporaries = explain(step, model, optimizer, x, y).memory.temporaries;
    weft::MemoryMeter meter;
    settle();
    const weft::Explanation::Memory planned = explain(step, model, optimizer, x, y).memory;
    std::printf("%lld %lld\n", static_cast<long long>(meter.peak() + temporaries),
                static_cast<long long>(planned.taken));
    return 0;
  }
  bench::take_turns(call);
}
