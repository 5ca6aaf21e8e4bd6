// expect: weft: options have names: {.lr = 1e-3}
#include <weft/weft.hpp>
void f(weft::nn::Linear& model) { weft::optim::Adam optimizer(model, 1e-3); }
