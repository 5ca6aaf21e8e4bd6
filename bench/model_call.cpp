// model-call CASE WAY: loss and gradients of a model, where the loss is differentiated outside of what is compiled, as
// in torch.compile(model).
//   mlp      the network of mlp-step, 64 rows
//   encoder  a layer of a transformer's encoder, d256, 128 x 4 tokens
//   eager    nothing is compiled
//   call     the model is compiled; value_and_grad is around its call
//   whole    the function that differentiates is compiled
#include <cstring>

#include "mlp.hpp"
#include "support.hpp"

using namespace weft;

namespace {

template <class M, class LossOf>
void run(const char* way, const M& model, const Tensor& x, LossOf loss_of) {
  static const auto forward = compile([](const M& m, const Tensor& x) { return m(x); }, {.check = Check::never});
  static const auto whole =
      compile([](const M& m, const Tensor& x) { return value_and_grad([&](const M& m) { return LossOf()(m(x)); }, m); },
              {.check = Check::never});
  const bool is_call = !std::strcmp(way, "call"), is_whole = !std::strcmp(way, "whole");
  bench::take_turns([&] {
    auto found = is_whole ? whole(model, x)
                          : value_and_grad([&](const M& m) { return loss_of(is_call ? forward(m, x) : m(x)); }, model);
    found.value.eval();
    bench::eval_all(found.gradients);
  });
}

struct CrossEntropy {
  Tensor operator()(const Tensor& logits) const { return nn::cross_entropy(logits, argmax(logits * 0, 1)); }
};
struct MeanSquare {
  Tensor operator()(const Tensor& y) const { return mean(square(y)); }
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 1;
  if (!std::strcmp(arguments[1], "mlp")) {
    bench::Mlp model;
    bench::eval_all(model);
    run(arguments[2], model, bench::random_normal({64, 784}, 1), CrossEntropy());
  } else {
    nn::TransformerEncoderLayer model(256, 8, {.dim_feedforward = 1024, .dropout = 0});
    bench::eval_all(model);
    run(arguments[2], model, bench::random_normal({128, 4, 256}, 3), MeanSquare());
  }
}
