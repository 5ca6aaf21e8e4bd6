// vmap CASE WAY: per-sample, the gradients of each of 64 samples of the network of mlp-step, by vmap(grad) or, summed,
// by grad of the batch's loss; per-sample-norm, the norms of these gradients alone; ensemble, 16 networks of one batch
// by vmap over their stacked parameters or by 16 calls of a compiled one. Compiled, taking turns (support.hpp).
#include "weft/vmap.hpp"

#include <cstring>

#include "mlp.hpp"
#include "support.hpp"

namespace {

using namespace weft;
using bench::Mlp;

Tensor loss_of(const Mlp& m, const Tensor& x, const Tensor& y) { return nn::cross_entropy(m(x), y); }

Tensor norm_of(const Mlp& gradients) {
  Tensor squares;
  tree::for_each(gradients, [&](const Param& g) {
    const Tensor own = sum(square(g));
    squares = squares.defined() ? squares + own : own;
  });
  return sqrt(squares);
}

void measure_norms(bool is_vmap) {
  const Tensor x = bench::random_normal({64, 784}, 1), y = bench::random_labels(64, 10, 2);
  Mlp model;
  const auto each = compile([](const Mlp& model, const Tensor& x, const Tensor& y) {
    return vmap([&](const Tensor& one, const Tensor& label) {
      return norm_of(grad([&](const Mlp& m) { return loss_of(m, one, label); }, model));
    })(x, y);
  });
  const auto summed = compile([](const Mlp& model, const Tensor& x, const Tensor& y) {
    return norm_of(grad([&](const Mlp& m) { return loss_of(m, x, y); }, model));
  });
  bench::take_turns([&] { (is_vmap ? each(model, x, y) : summed(model, x, y)).eval(); });
}

void measure_per_sample(bool is_vmap) {
  const Tensor x = bench::random_normal({64, 784}, 1), y = bench::random_labels(64, 10, 2);
  Mlp model;
  const auto each = compile([](const Mlp& model, const Tensor& x, const Tensor& y) {
    return vmap([&](const Tensor& one, const Tensor& label) {
      return grad([&](const Mlp& m) { return loss_of(m, one, label); }, model);
    })(x, y);
  });
  const auto summed = compile([](const Mlp& model, const Tensor& x, const Tensor& y) {
    return grad([&](const Mlp& m) { return loss_of(m, x, y); }, model);
  });
  bench::take_turns([&] {
    Mlp gradients = is_vmap ? each(model, x, y) : summed(model, x, y);
    bench::eval_all(gradients);
  });
}

void measure_ensemble(bool is_vmap) {
  const Tensor x = bench::random_normal({64, 784}, 1);
  std::vector<Mlp> models(16);
  const Mlp stacked = stack_module_state(models);
  const auto together =
      compile([](const Mlp& stacked, const Tensor& x) { return vmap([&](const Mlp& m) { return m(x); })(stacked); });
  const auto one = compile([](const Mlp& m, const Tensor& x) { return m(x); });
  bench::take_turns([&] {
    if (is_vmap) {
      together(stacked, x).eval();
      return;
    }
    for (const Mlp& model : models) one(model, x).eval();
  });
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 1;
  const bool is_vmap = !std::strcmp(arguments[2], "vmap");
  if (!std::strcmp(arguments[1], "per-sample"))
    measure_per_sample(is_vmap);
  else if (!std::strcmp(arguments[1], "per-sample-norm"))
    measure_norms(is_vmap);
  else
    measure_ensemble(is_vmap);
}
