// expect: as one with virtual functions, private members or a base needs
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
