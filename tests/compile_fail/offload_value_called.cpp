// expect: weft: offload takes a function, as a layer is one, and not its result: offload(layer)(x)
#include "weft/nn.hpp"
#include "weft/offload.hpp"

weft::Tensor run(const weft::nn::Linear& layer, const weft::Tensor& x) { return weft::offload(layer(x))(x); }
