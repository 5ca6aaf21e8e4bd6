// split_step whole|split: the training step of gpt_step d384, as one compiled function, and as a compiled loss that is
// differentiated outside and a compiled update, taking turns (support.hpp). `split` before that prints what is saved
// between its two calls.
#include <cstring>

#include "functions.hpp"
#include "support.hpp"

namespace {

using weft::Tensor;
using Optimizer = weft::optim::AdamW;

Tensor loss_of(const bench::Gpt& model, const Tensor& text, const Tensor& labels) {
  return bench::cross_entropy(model(text), labels);
}

}  // namespace

int main(int count, char** arguments) {
  const std::int64_t vocabulary = 65, batch = 4, time = 256;
  bench::Gpt model({vocabulary, time, 384, 6, 6}, {});
  Optimizer optimizer(model);
  bench::eval_all(model);
  bench::eval_all(optimizer);
  const auto text = [&](unsigned seed) {
    return reshape(bench::random_labels(batch * time, vocabulary, seed), {batch, time}).eval();
  };
  const Tensor x = text(1), y = text(2);
  if (count > 1 && !std::strcmp(arguments[1], "split")) {
    const auto forward = weft::compile(loss_of, {.check = weft::Check::never});
    const auto update =
        weft::compile([](bench::Gpt& m, Optimizer& o, const bench::Gpt& gradients) { o.update(m, gradients); },
                      {.check = weft::Check::never});
    const auto step = [&] {
      const auto found = weft::value_and_grad([&](const bench::Gpt& m) { return forward(m, x, y); }, model);
      update(model, optimizer, found.gradients);
    };
    step();
    for (const std::string& line : explain(forward, model, x, y).derivatives)
      std::fprintf(stderr, "%s\n", line.c_str());
    bench::take_turns(step);
    return 0;
  }
  const auto whole = weft::compile([](bench::Gpt& m, Optimizer& o, const Tensor& x,
                                      const Tensor& y) { return bench::train_gpt(m, o, x, y, weft::DType::f32); },
                                   {.check = weft::Check::never});
  bench::take_turns([&] { whole(model, optimizer, x, y).eval(); });
}
