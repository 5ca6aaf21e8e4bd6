// expect: takes a part of a const model by a reference that is not const: write const Param&
#include "weft/tree.hpp"

struct Model {
  weft::Param weight;
};
void change(const Model& model) {
  weft::tree::for_each(model, [](weft::Param& p) { p.frozen = true; });
}
