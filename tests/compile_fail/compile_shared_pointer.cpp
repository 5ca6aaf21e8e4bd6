// expect: Offending = std::shared_ptr<weft::Tensor>
#include <memory>
#include <vector>

#include "weft/compile.hpp"

struct Model {
  std::vector<std::shared_ptr<weft::Tensor>> layers;
};
int main() {
  auto f = weft::compile([](const Model& m) { return *m.layers[0]; });
  f(Model());
}
