// expect: in the place of a number full({}, x)
#include "weft/transforms.hpp"

weft::Tensor slope(const weft::Tensor& x) {
  auto [value, pull] = weft::vjp([](const weft::Tensor& a) { return weft::sum(a); }, x);
  return pull(1.0);
}
