// expect: weft: custom_jvp(f, rule) calls rule(operands..., tangents...)
#include <weft/transforms.hpp>
using weft::Tensor;
void f(Tensor x) {
  const auto one = [](const Tensor& a) { return a; };
  weft::custom_jvp(one, one)(x);
}
