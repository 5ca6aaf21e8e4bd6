// Gradients of parts of a value, as slices give them: zero outside of the part. In: two that lie side by side. Out: one
// of both parts, by a concatenation in the place of a sum: the whole of q, k and v, say.
#pragma once
#include "record/record.hpp"

namespace weft {

// Undefined where they are no such neighbours. Outside a trace, too, where the values have been computed.
Tensor join_gradients(const Tensor& a, const Tensor& b);

}  // namespace weft
