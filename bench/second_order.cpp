// second_order gradient|hvp|tangent|hessian [eager]: of the loss of mlp-step's network at batch 64 its gradient, its
// Hessian times a direction, and its derivative in that direction; and the Hessian of a function of 64 variables.
// Compiled unless said otherwise; taking turns (support.hpp).
#include <cstring>

#include "mlp.hpp"
#include "support.hpp"

namespace {

using namespace weft;
using namespace bench;

constexpr auto loss_of = [](const Mlp& m, const Tensor& x, const Tensor& y) { return nn::cross_entropy(m(x), y); };
constexpr auto slope = [](const Mlp& m, const Mlp&, const Tensor& x, const Tensor& y) {
  return grad([&](const Mlp& at) { return loss_of(at, x, y); }, m);
};
constexpr auto product = [](const Mlp& m, const Mlp& along, const Tensor& x, const Tensor& y) {
  return hvp([&](const Mlp& at) { return loss_of(at, x, y); }, m, along);
};
constexpr auto tangent = [](const Mlp& m, const Mlp& along, const Tensor& x, const Tensor& y) {
  return jvp([&](const Mlp& at) { return loss_of(at, x, y); }, m, along).tangent;
};
// Rosenbrock's function of x and a product of all pairs.
constexpr auto all_second = [](const Tensor& x) {
  return hessian(
      [](const Tensor& a) {
        const Tensor left = slice(a, 0, 0, 63), right = slice(a, 0, 1, 64);
        return sum(square(right - square(left)) * 100 + square(1 - left)) + square(sum(tanh(a)));
      },
      x);
};

template <class F, class... A>
void measure(F f, bool eager, const A&... arguments) {
  const auto compiled = compile(f);
  take_turns([&] {
    auto result = eager ? f(arguments...) : compiled(arguments...);
    eval_all(result);
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "hvp";
  const bool eager = count > 2 && !std::strcmp(arguments[2], "eager");
  const Tensor x = random_normal({64, 784}, 1), y = random_labels(64, 10, 2);
  const Mlp model, along;
  if (what == "gradient") measure(slope, eager, model, along, x, y);
  if (what == "hvp") measure(product, eager, model, along, x, y);
  if (what == "tangent") measure(tangent, eager, model, along, x, y);
  if (what == "hessian") measure(all_second, eager, random_normal({64}, 3));
}
