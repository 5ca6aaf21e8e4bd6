// expect: weft: a raw pointer is passed to or returned by a compiled function
#include "weft/compile.hpp"

struct Model {
  weft::Param weight;
  Model* parent;
};
int main() {
  auto f = weft::compile([](const Model& m, const weft::Tensor& x) { return m.parent ? x : m.weight.tensor(); });
  f(Model(), weft::Tensor());
}
