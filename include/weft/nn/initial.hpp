// Initial values of weights.
#pragma once
#include "weft/random.hpp"

namespace weft::nn {

// Of weights [out, in, ...]: an output sees in * ... inputs (fan in), an input feeds out * ... outputs (fan out).

// Uniform or normal with the deviation gain / sqrt(fan in) (He and others 2015); the gain of relu is sqrt(2).
Tensor kaiming_uniform(Sizes sizes, Generator& generator = default_generator(), double gain = 1.4142135623730951,
                       Options options = {}, Loc loc = Loc::current());
Tensor kaiming_normal(Sizes sizes, Generator& generator = default_generator(), double gain = 1.4142135623730951,
                      Options options = {}, Loc loc = Loc::current());
// The same with the deviation gain * sqrt(2 / (fan in + fan out)) (Glorot and Bengio 2010).
Tensor xavier_uniform(Sizes sizes, Generator& generator = default_generator(), double gain = 1, Options options = {},
                      Loc loc = Loc::current());
Tensor xavier_normal(Sizes sizes, Generator& generator = default_generator(), double gain = 1, Options options = {},
                     Loc loc = Loc::current());

}  // namespace weft::nn
