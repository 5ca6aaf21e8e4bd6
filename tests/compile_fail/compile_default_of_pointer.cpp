// expect: weft: a compiled function pointer has no default arguments: give it all arguments, or compile a lambda
// without: too many or too few
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  compile(softmax)(x);
}
