// expect: weft: the members of this plain struct cannot be listed
#include "weft/compile.hpp"

struct Model {
  weft::Param weight;
  union {
    int depth;
    float rate;
  };
};
int main() {
  auto f = weft::compile([](const Model& m) { return m.weight.tensor(); });
  f(Model());
}
