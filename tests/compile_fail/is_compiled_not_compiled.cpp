// expect: weft: is_compiled takes a compiled function: wrap it in weft::compile
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  auto f = [](const Tensor& x) { return x + 1; };
  is_compiled(f, x);
}
