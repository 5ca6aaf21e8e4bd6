// expect: weft: a function that is transformed returns a Tensor, or a struct, tuple or container of tensors
#include <weft/transforms.hpp>
void f(weft::Tensor x) {
  weft::vjp([](const weft::Tensor& a) { return &a; }, x);
}
