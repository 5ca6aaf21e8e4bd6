// Attention whose dropout has a draw already. In and out as scaled_dot_product_attention of weft/nn/attention.hpp.
#pragma once
#include "record/random.hpp"
#include "weft/nn/attention.hpp"

namespace weft::nn {

// By the draw `given`; where that is null, dropout makes a draw. Recorded as one call, but its body where it has
// dropout and no device may do it whole. `stats`, if wanted, of a call that a device may do whole: the log-sum-exp of
// each row's scores, f32 [..., heads, L].
Tensor attention_by(const Draw* given, At query, At key, At value, const AttentionOptions& options,
                    Tensor* stats = nullptr);
// 1 / sqrt(depth), and 1 of no features.
double usual_scale(std::int64_t depth);

}  // namespace weft::nn
