// Dropout by its statistics, by determinism, and in both modes.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/record/refused.hpp"
#include "weft/nn/dropout.hpp"
#include "weft/weft.hpp"

using namespace weft;
using weft::test::refused;

namespace {

double part_of_zeros(const Tensor& x) { return mean(cast(x == 0, DType::f64)).item(); }
bool same(const Tensor& a, const Tensor& b) { return all(a == b).item<bool>(); }

template <class Layer>
Tensor apply(const Layer& layer, const Tensor& x) {
  return layer(x);
}

// New masks each call, the same ones from the same seed, none in evaluation; one compilation a mode.
template <class Layer>
void check_draws(Layer layer, const Tensor& x) {
  for (const Backend backend : {Backend::eager, Backend::compiled}) {
    auto run = compile(apply<Layer>, {.backend = backend});
    nn::train(layer);
    seed(3);
    const Tensor first = run(layer, x), second = run(layer, x);
    CHECK(!same(first, second));
    seed(3);
    CHECK(same(run(layer, x), first));
    seed(3);
    CHECK(same(layer(x), first));
    nn::eval(layer);
    CHECK(same(run(layer, x), x));
    CHECK(same(layer(x), x));
    if (backend == Backend::compiled) CHECK(specialization_count(run) == 2);
  }
}

}  // namespace

TEST_CASE("dropout layers draw anew, from the seed alone, and do nothing in evaluation") {
  const Tensor x = arange(1.0, 601.0, 1.0);
  check_draws(nn::Dropout(0.3), reshape(x, {6, 100}));
  check_draws(nn::Dropout1d(), reshape(x, {10, 20, 3}));
  check_draws(nn::Dropout2d(), reshape(x, {10, 15, 2, 2}));
  check_draws(nn::Dropout3d(0.6), reshape(x, {5, 15, 2, 2, 2}));
  check_draws(nn::AlphaDropout(), reshape(x, {6, 100}));
  check_draws(nn::FeatureAlphaDropout(0.2), reshape(x, {10, 20, 3}));
}

TEST_CASE("dropout: how many are dropped, the mean that stays, whole channels, gradients") {
  Generator generator(5);
  const Tensor ones_ = ones({300, 400});
  const Tensor dropped = nn::Dropout(0.3)(ones_, generator);
  CHECK(std::abs(part_of_zeros(dropped) - 0.3) < 0.005);
  CHECK(std::abs(mean(dropped).item() - 1) < 0.01);
  CHECK(max(dropped).item() == doctest::Approx(1 / 0.7));
  const Tensor channels = nn::Dropout2d(0.25)(ones({100, 100, 3, 4}), generator);
  CHECK(std::abs(part_of_zeros(channels) - 0.25) < 0.02);
  CHECK(same(amax(channels, {2, 3}), amin(channels, {2, 3})));
  const Tensor single = nn::Dropout1d(0.5)(ones({1000, 3}), generator);
  CHECK(same(amax(single, 1), amin(single, 1)));
  CHECK(std::abs(part_of_zeros(single) - 0.5) < 0.06);
  CHECK(part_of_zeros(nn::Dropout(1)(ones_)) == 1);
  CHECK(part_of_zeros(nn::Dropout(0)(ones_)) == 0);
  Generator again(9), other(9);
  const Tensor mask = nn::Dropout(0.5)(ones_, again);
  CHECK(same(grad([&](const Tensor& x) { return sum(nn::Dropout(0.5)(x, other)); }, ones_), mask));
  // Mean 0 and variance 1 stay.
  for (const bool whole : {false, true}) {
    const Tensor x = normal({2000, 200}, 0, 1, generator);
    const Tensor y = whole ? nn::FeatureAlphaDropout(0.4)(x, generator) : nn::AlphaDropout(0.4)(x, generator);
    CHECK(std::abs(mean(y).item()) < 0.01);
    CHECK(std::abs(var(y).item() - 1) < 0.01);
  }
  CHECK(nn::Dropout()(ones({4}, {DType::bf16})).dtype() == DType::bf16);
}

TEST_CASE("dropout between the layers of an LSTM, not after the last; in training alone") {
  nn::LSTM layer(3, 4, {.num_layers = 2, .dropout = 0.5}), single(3, 4, {.dropout = 0.5});
  const Tensor x = uniform({7, 2, 3});
  seed(1);
  const Tensor first = layer(x).output;
  CHECK(!same(first, layer(x).output));
  seed(1);
  CHECK(same(first, layer(x).output));
  CHECK(same(single(x).output, single(x).output));
  nn::eval(layer);
  CHECK(same(layer(x).output, layer(x).output));
}

TEST_CASE("dropout: what is refused") {
  refused([] { nn::Dropout(NAN); }, "[Dropout] the probability must be in [0, 1], it is nan");
  refused([] { nn::Dropout(1.5); }, "[Dropout] the probability must be in [0, 1], it is 1.5");
  refused([] { dropout(ones({2}), -0.1, true); }, "the probability must be in [0, 1]");
  const nn::Dropout2d layer;
  refused([&] { layer(ones({2, 3})); }, "2 axes after the channels: f32[2,3]");
  refused([] { nn::FeatureAlphaDropout()(ones({2})); }, "takes a tensor [N, C, ...]");
  refused([] { nn::GRU(2, 3, {.dropout = 2}); }, "[GRU] the probability must be in [0, 1]");
}
