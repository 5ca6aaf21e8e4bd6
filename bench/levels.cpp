// levels: what CompileOptions::level costs and gives. For the network of mlp-step and one layer of a transformer's
// encoder, a training step each: for each level the processors' time of the first call, compilers included, without the
// disk cache, and the fastest of later calls, in milliseconds. Both mean something on a machine that others use too.
// Levels take turns.
#include <sys/resource.h>

#include <cstdlib>

#include "mlp.hpp"
#include "support.hpp"

namespace {

using namespace weft;
using namespace bench;

constexpr Level levels[] = {Level::O0, Level::O1, Level::O2, Level::O3};
constexpr int turns = 5, calls = 30;

Tensor train_encoder(nn::TransformerEncoderLayer& layer, optim::Adam& optimizer, const Tensor& x) {
  auto [loss, gradients] = value_and_grad([&](nn::TransformerEncoderLayer& l) { return mean(square(l(x))); }, layer);
  optimizer.update(layer, gradients);
  return loss;
}

double processor_milliseconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used;
    getrusage(who, &used);
    for (const timeval& part : {used.ru_utime, used.ru_stime})
      sum += static_cast<double>(part.tv_sec) * 1e3 + static_cast<double>(part.tv_usec) * 1e-3;
  }
  return sum;
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
      const double before = processor_milliseconds();
      timed();
      first[i].push_back(processor_milliseconds() - before);
      for (int call = 0; call < calls; ++call) later[i].push_back(timed());
    }
  for (std::size_t i = 0; i < std::size(levels); ++i)
    std::printf("%s O%d %.4g %.4g\n", name, static_cast<int>(i), median(first[i]), *std::ranges::min_element(later[i]));
}

}  // namespace

int main() {
  setenv("WEFT_CACHE", "0", 1);
  Mlp mlp;
  measure("mlp", train, mlp, random_normal({64, 784}, 1), random_labels(64, 10, 2));
  nn::TransformerEncoderLayer encoder(256, 8, {.dim_feedforward = 1024, .dropout = 0});
  measure("encoder", train_encoder, encoder, random_normal({128, 4, 256}, 3));
}
