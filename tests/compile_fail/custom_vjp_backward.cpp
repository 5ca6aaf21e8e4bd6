// expect: weft: custom_vjp(f, forward, backward) calls backward(residuals, cotangent)
#include <weft/transforms.hpp>
using weft::Tensor;
void f(Tensor x) {
  const auto one = [](const Tensor& a) { return a; };
  weft::custom_vjp(
      one,
      [](const Tensor& a) {
        return std::pair{a, a};
      },
      one)(x);
}
