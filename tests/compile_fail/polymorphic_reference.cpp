// expect: weft: an object of a class that derives from weft::Polymorphic and has no WEFT_MEMBERS is passed as
// without: This type is none of them
#include "weft/compile.hpp"
#include "weft/ops.hpp"
#include "weft/polymorphic.hpp"

struct Layer : weft::Polymorphic {
  virtual weft::Tensor operator()(const weft::Tensor& x) const = 0;
};
struct Scale : Layer {
  weft::Param by;
  weft::Tensor operator()(const weft::Tensor& x) const override { return x * by; }
  WEFT_MEMBERS(by)
};
int main() {
  auto f = weft::compile([](const Layer& layer, const weft::Tensor& x) { return layer(x); });
  f(Scale(), weft::Tensor());
}
