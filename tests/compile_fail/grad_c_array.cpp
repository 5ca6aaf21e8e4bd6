// expect: gradients have the type of wrt, which can't be a C array: take std::array
#include "weft/grad.hpp"

weft::Tensor gradient(weft::Tensor (&weights)[2]) {
  auto gradients = weft::grad([](const auto& w) { return weft::sum(w[0] * w[1]); }, weights);
  return gradients;
}
