// The network of mlp-step, cold-start and warm-start, and its training step: 784-256-128-10, Adam.
#pragma once
#include <weft/weft.hpp>

namespace bench {

struct Mlp {
  weft::nn::Linear in{784, 256}, mid{256, 128}, out{128, 10};
  weft::Tensor operator()(const weft::Tensor& x) const { return out(relu(mid(relu(in(x))))); }
};

inline constexpr auto train = [](Mlp& model, weft::optim::Adam& optimizer, const weft::Tensor& x,
                                 const weft::Tensor& y) {
  auto [loss, gradients] = weft::value_and_grad([&](const Mlp& m) { return weft::nn::cross_entropy(m(x), y); }, model);
  optimizer.update(model, gradients);
  return loss;
};

}  // namespace bench
