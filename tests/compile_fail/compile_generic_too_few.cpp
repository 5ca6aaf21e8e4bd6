// expect: weft: a compiled function is called with arguments that the function does not take
#include "weft/compile.hpp"
#include "weft/ops.hpp"

int main() {
  auto f = weft::compile([](auto& m, auto& x) { return m * x; });
  weft::Tensor x = weft::ones({2}), y = f(x);
}
