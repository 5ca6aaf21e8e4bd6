// expect: weft: a pointer to a class with virtual functions can be followed where the class derives from weft::Polymorphic
// without: a type that has no meaning
#include <memory>

#include "weft/grad.hpp"
#include "weft/members.hpp"

struct Layer {
  virtual ~Layer() = default;
  weft::Param weight;
  WEFT_MEMBERS(weight)
};
struct Model {
  std::unique_ptr<Layer> layer;
};
int main() {
  weft::grad([](const Model& m) { return weft::sum(m.layer->weight); }, Model());
}
