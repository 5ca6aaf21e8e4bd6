// mlp_step BATCH compiled|eager: the whole training step on random data, taking turns (support.hpp).
#include <cstdlib>
#include <cstring>

#include "mlp.hpp"
#include "support.hpp"

int main(int count, char** arguments) {
  std::int64_t batch = count > 1 ? std::atol(arguments[1]) : 64;
  weft::Tensor x = bench::random_normal({batch, 784}, 1), y = bench::random_labels(batch, 10, 2);
  bench::Mlp model;
  weft::optim::Adam optimizer(model, {.lr = 1e-3});
  if (count > 2 && !std::strcmp(arguments[2], "eager")) {
    bench::take_turns([&] {
      bench::train(model, optimizer, x, y).eval();
      bench::eval_all(model);
      bench::eval_all(optimizer);
    });
  } else {
    auto step = weft::compile(bench::train);
    bench::take_turns([&] { step(model, optimizer, x, y).eval(); });
  }
}
