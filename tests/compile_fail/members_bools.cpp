// expect: plain, or with WEFT_MEMBERS(a, b, ...) inside. This type is none of them
#include <vector>

#include "weft/compile.hpp"

struct Mask {
  std::vector<bool> bits;
};
int main() {
  auto f = weft::compile([](const Mask& m, const weft::Tensor& x) { return m.bits.empty() ? x : weft::Tensor(); });
  f(Mask(), weft::Tensor());
}
