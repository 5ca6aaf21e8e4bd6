// expect: keep Generators outside the model and pass them to f
#include "weft/grad.hpp"
#include "weft/random.hpp"

struct Model {
  weft::Param weight;
  weft::Generator generator;
};
void gradient(Model& model) {
  weft::grad([](const Model& m) { return weft::sum(m.weight); }, model);
}
