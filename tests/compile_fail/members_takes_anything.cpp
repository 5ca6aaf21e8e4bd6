// expect: weft: the members of this plain struct cannot be listed
#include "weft/grad.hpp"

struct Anything {
  template <class T>
  Anything(T&&) {}
};
struct Model {
  Anything first;
  weft::Param weight;
};
int main() {
  Model model{1, {}};
  weft::grad([](const Model& m) { return m.weight.tensor(); }, model);
}
