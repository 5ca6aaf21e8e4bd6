// expect: weft: a class needs WEFT_MEMBERS(a, b), or WEFT_MEMBERS()
#include <memory>

#include "weft/polymorphic.hpp"

struct Layer : weft::Polymorphic {
  virtual weft::Tensor operator()(const weft::Tensor& x) const = 0;
};
struct Scale : Layer {
  weft::Param by;
  weft::Tensor operator()(const weft::Tensor& x) const override { return x; }
};
int main() { std::unique_ptr<Layer> layer(new Scale()); }
