// expect: weft: a compiled function with a parameter `auto&` is called with a temporary object
#include "weft/compile.hpp"
#include "weft/ops.hpp"

struct Model {
  weft::Param weight;
};
int main() {
  Model model;
  auto f = weft::compile([](auto& m, auto& x) { return m.weight * x; });
  weft::Tensor y = f(model, weft::ones({2}));
}
