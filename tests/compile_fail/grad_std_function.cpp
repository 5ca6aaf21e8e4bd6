// expect: weft: a std::function cannot be guarded
// without: a type that has no meaning
#include <functional>

#include "weft/grad.hpp"

struct Model {
  weft::Param weight;
  std::function<weft::Tensor(const weft::Tensor&)> activation;
};
int main() {
  weft::grad([](const Model& m) { return weft::sum(m.activation(m.weight)); }, Model());
}
