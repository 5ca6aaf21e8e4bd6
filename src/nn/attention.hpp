// Attention whose dropout has a draw already. In and out as scaled_dot_product_attention of weft/nn/attention.hpp.
#pragma once
#include "record/random.hpp"
#include "weft/nn/attention.hpp"

namespace weft::nn {

// By the draw `given`; where that is null, dropout makes a draw. Recorded as one call, but its body where it has
// dropout and no device may do it whole.
Tensor attention_by(const Draw* given, At query, At key, At value, const AttentionOptions& options);

}  // namespace weft::nn
