// expect: weft: a std::function cannot be guarded
// without: This type is none of them
#include <functional>
#include <vector>

#include "weft/compile.hpp"
#include "weft/ops.hpp"

struct Model {
  weft::Param weight;
  std::vector<std::function<weft::Tensor(const weft::Tensor&)>> activations;
};
int main() {
  auto f = weft::compile([](const Model& m, const weft::Tensor& x) { return m.activations[0](x * m.weight); });
  f(Model(), weft::Tensor());
}
