// expect: weft: this struct derives from a class with members, which would be dropped: make the base a member
#include "weft/compile.hpp"

struct Base {
  weft::Param weight;
};
struct Model : Base {
  int mode = 0;
};
int main() {
  auto f = weft::compile([](const Model& m) { return m.weight.tensor(); });
  f(Model());
}
