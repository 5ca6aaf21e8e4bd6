// expect: the elements of std::vector<bool> are no objects: use std::vector<char>
#include <vector>

#include "weft/compile.hpp"

struct Mask {
  std::vector<bool> bits;
};
int main() {
  auto f = weft::compile([](const Mask& m, const weft::Tensor& x) { return m.bits.empty() ? x : weft::Tensor(); });
  f(Mask(), weft::Tensor());
}
