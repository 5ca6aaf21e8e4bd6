#include <iostream>
#include <weft/weft.hpp>
using namespace weft;

struct Curve {  // a plain struct of parameters is a model
  Param a = full({}, 0.5), b = full({}, 1.5);
};

int main() {
  Curve curve;
  optim::Adam opt(curve, {.lr = 0.02});
  auto step = compile([](Curve& curve, optim::Adam& opt, const Tensor& x, const Tensor& y) {
    auto gradient = grad([&](const Curve& c) { return nn::mse_loss(c.a * sin(c.b * x), y); }, curve);
    opt.update(curve, gradient);  // forward, backward and update: one graph, a few kernels
  });
  Tensor x = uniform({256}, -3, 3), y = 2 * sin(1.2 * x);
  for (int i = 0; i < 400; ++i) step(curve, opt, x, y);
  std::cout << curve.a.tensor().item() << " sin(" << curve.b.tensor().item() << " x)\n";
}
