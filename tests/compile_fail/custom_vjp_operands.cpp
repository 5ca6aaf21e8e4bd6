// expect: weft: a function of custom_vjp is called with as many tensors as f takes
#include <weft/transforms.hpp>
using weft::Tensor;
void f(Tensor x) {
  const auto one = [](const Tensor& a) { return a; };
  weft::custom_vjp(
      one,
      [](const Tensor& a) {
        return std::pair{a, 0};
      },
      [](int, const Tensor& g) { return g; })(x, x);
}
