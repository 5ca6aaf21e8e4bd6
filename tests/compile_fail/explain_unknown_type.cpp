// expect: a raw pointer is passed to
#include "weft/weft.hpp"

using namespace weft;

int main() {
  Tensor x = ones({3, 4});
  explain(compile([](const auto& y) { return y; }), &x);
}
