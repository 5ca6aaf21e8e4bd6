// expect: wrt is or holds a type that has no meaning to Weft
#include "weft/grad.hpp"

struct Model {
  weft::Param weight;
  void* handle;
};
Model gradient(Model& model) {
  return weft::grad([](const Model& m) { return weft::sum(m.weight); }, model);
}
