// expect: as private members, a base and virtual functions need. This type is none of them
#include "weft/compile.hpp"

struct Layer {
  virtual ~Layer() = default;
  weft::Param weight;
};
int main() {
  auto f =
      weft::compile([](const Layer& layer, const weft::Tensor& x) { return layer.weight.tensor().defined() ? x : x; });
  f(Layer(), weft::Tensor());
}
