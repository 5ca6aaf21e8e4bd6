// A program that only infers an MLP.
#include <iostream>

#include "weft/compile.hpp"
#include "weft/nn/activation.hpp"
#include "weft/nn/linear.hpp"
#include "weft/ops.hpp"

using namespace weft;

struct Mlp {
  nn::Linear first{4, 8}, second{8, 2};
  WEFT_MEMBERS(first, second)
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
};

int main() {
  const Mlp model;
  const auto f = compile([](const Mlp& model, const Tensor& x) { return model(x); });
  std::cout << f(model, ones({1, 4})).shape() << "\n";
}
