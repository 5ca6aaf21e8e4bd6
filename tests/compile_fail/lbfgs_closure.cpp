// expect: weft: the closure of LBFGS::step must return what value_and_grad does
#include <weft/weft.hpp>
using namespace weft;
void f(nn::Linear& model, optim::LBFGS& optimizer, const Tensor& x) {
  optimizer.step(model, [&](const nn::Linear& m) { return sum(m(x)); });
}
