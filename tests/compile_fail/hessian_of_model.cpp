// expect: weft: hessian is at one Tensor; of a model take hvp
#include <weft/transforms.hpp>
struct Model {
  weft::Param weight;
};
void f(Model model) {
  weft::hessian([](const Model& m) { return sum(m.weight); }, model);
}
