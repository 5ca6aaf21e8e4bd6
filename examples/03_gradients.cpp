// Gradients: of a tensor and of a model, of a gradient, eagerly and compiled. A compiled training step is one graph of
// forward, backward and update, and becomes a few kernels.
#include <cmath>
#include <iostream>

#include <weft/weft.hpp>

using namespace weft;

struct Curve {  // y = a sin(b x) + c: a plain struct of parameters is a model
  Param a, b, c;
  Tensor operator()(const Tensor& x) const { return a * sin(b * x) + c; }
};

int main() {
  // With respect to a tensor, held against a difference quotient.
  auto f = [](const Tensor& v) { return sum(tanh(v) * v); };
  Tensor x = from_list<double>({-1, 0.5, 2});
  auto [value, slope] = value_and_grad(f, x);
  Tensor step = from_list<double>({0, 1e-6, 0});
  double quotient = (f(x + step).item() - f(x - step).item()) / 2e-6;
  std::cout << "f(x)        " << value << "\n"
            << "gradient    " << slope << ", by differences in the middle " << quotient << "\n";

  // A gradient is a tensor like any other, so it has gradients too.
  auto total_slope = [&](const Tensor& v) { return sum(grad(f, v)); };
  std::cout << "second      " << grad(total_slope, x) << "\n\n";

  // With respect to a model: the gradients are a Curve. The step is compiled as a whole.
  Curve curve{full({}, 0.5), full({}, 1.5), full({}, 0)};
  optim::Adam optimizer(curve, {.lr = 0.03});
  auto train = compile([](Curve& curve, optim::Adam& optimizer, const Tensor& x, const Tensor& y) {
    auto [loss, gradients] = value_and_grad([&](const Curve& c) { return nn::mse_loss(c(x), y); }, curve);
    optimizer.update(curve, gradients);
    return loss;
  });
  Generator rng(1);
  Tensor points = uniform({256}, -3, 3, rng);
  Tensor targets = 2 * sin(1.2 * points) + 0.5 + normal({256}, 0, 0.05, rng);
  for (int i = 0; i <= 400; ++i) {
    Tensor loss = train(curve, optimizer, points, targets);
    if (i % 100 == 0) std::cout << "step " << i << "  loss " << loss.item() << "\n";
    if (i == 300) optimizer.lr = 0.003;  // a Scalar: nothing is compiled anew
  }
  double a = curve.a.tensor().item(), b = curve.b.tensor().item(), c = curve.c.tensor().item();
  std::cout << "fitted      " << a << " sin(" << b << " x) + " << c << ", made as 2 sin(1.2 x) + 0.5\n"
            << "kernels     " << explain(train, curve, optimizer, points, targets).kernels.size()
            << " for the whole step\n";
  bool fits = std::abs(a - 2) < 0.05 && std::abs(b - 1.2) < 0.05 && std::abs(c - 0.5) < 0.05;
  bool agrees = std::abs(slope.data<double>()[1] - quotient) < 1e-6;
  return fits && agrees ? 0 : 1;
}
