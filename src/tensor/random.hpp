// The default generator as compile() sees it. A trace that draws from it gets a hidden input, Trace::generator_input
// (i64[2]: seed, offset), whose value at the end is Trace::generator_value: each call takes the state, runs, and puts
// the new one back.
#pragma once
#include "weft/tensor.hpp"

namespace weft {

Tensor default_generator_state();
void set_default_generator_state(Tensor state);

}  // namespace weft
