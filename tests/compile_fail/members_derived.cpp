// expect: weft: this class derives from one with WEFT_MEMBERS and has no list of its own: its members would be dropped
#include "weft/compile.hpp"

struct Base {
  weft::Param weight;
  WEFT_MEMBERS(weight)
};
struct Derived : Base {
  weft::Param bias;
};
int main() {
  auto f = weft::compile([](const Derived& m) { return m.weight.tensor(); });
  f(Derived());
}
