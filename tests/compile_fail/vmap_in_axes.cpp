// expect: weft: in_axes of vmap(f, in_axes) are an axis, or one for each argument, as in {0, std::nullopt}
#include "weft/vmap.hpp"

weft::Tensor sums(const weft::Tensor& x) {
  return weft::vmap([](const weft::Tensor& a) { return weft::sum(a); }, std::nullopt)(x);
}
