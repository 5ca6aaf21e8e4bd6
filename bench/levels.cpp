// levels: what CompileOptions::level costs and gives. For the network of mlp-step and one layer of a transformer's
// encoder, a training step each: for each level the first call, without the disk cache, and the median of later calls,
// in milliseconds. Levels take turns; the medians are over all turns.
#include <cstdlib>

#include "mlp.hpp"
#include "support.hpp"

namespace {

using namespace weft;
using namespace bench;

constexpr Level levels[] = {Level::O0, Level::O1, Level::O2};
constexpr int turns = 5, calls = 30;

Tensor train_encoder(nn::TransformerEncoderLayer& layer, optim::Adam& optimizer, const Tensor& x) {
  auto [loss, gradients] = value_and_grad([&](nn::TransformerEncoderLayer& l) { return mean(square(l(x))); }, layer);
  optimizer.update(layer, gradients);
  return loss;
}

template <class F, class M, class... X>
void measure(const char* name, F train, M& model, const X&... x) {
  optim::Adam optimizer(model, {.lr = 1e-3});
  eval_all(model);
  eval_all(optimizer);
  std::vector<double> first[std::size(levels)], later[std::size(levels)];
  for (int turn = 0; turn < turns; ++turn)
    for (std::size_t i = 0; i < std::size(levels); ++i) {
      const auto step = compile(train, {.check = Check::never, .level = levels[i]});
      const auto timed = [&] {
        const auto begin = Clock::now();
        step(model, optimizer, x...).eval();
        return seconds_since(begin) * 1e3;
      };
      first[i].push_back(timed());
      for (int call = 0; call < calls; ++call) later[i].push_back(timed());
    }
  for (std::size_t i = 0; i < std::size(levels); ++i)
    std::printf("%s O%d %.4g %.4g\n", name, static_cast<int>(i), median(first[i]), median(later[i]));
}

}  // namespace

int main() {
  setenv("WEFT_CACHE", "0", 1);
  Mlp mlp;
  measure("mlp", train, mlp, random_normal({64, 784}, 1), random_labels(64, 10, 2));
  nn::TransformerEncoderLayer encoder(256, 8, {.dim_feedforward = 1024, .dropout = 0});
  measure("encoder", train_encoder, encoder, random_normal({128, 4, 256}, 3));
}
