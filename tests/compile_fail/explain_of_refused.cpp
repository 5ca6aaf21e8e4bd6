// expect: weft: compile() takes callables without captures
// without: takes a compiled function
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  explain(compile([x](const Tensor& y) { return x + y; }), x);
}
