// Passes of Weft's own that a program registers where it wants them (weft/backends.hpp):
//   register_pass(PassStage::traced, "fuse_attention", "1", fuse_attention);
#pragma once
#include "weft/graph.hpp"

namespace weft {

// Attention that is written as products and a softmax, as in imported models, becomes nn::scaled_dot_product_attention.
// On a GPU that has a kernel for it, compiled functions do so by default, and with derivatives (docs/attention.md).
// Found is softmax(q k^T) v over the last axis, of one floating dtype, with
//   a positive number that scores, queries or keys are multiplied with or divided by, before a mask or after it;
//   masks that are added or subtracted, and where(mask, scores, c) or masked_fill, c -1000 or less after scaling;
//   keys that come transposed by any permutation, or lie so; casts of scores and weights among floating dtypes;
//   dropout of the weights, where a device does the whole: it drops the same ones.
// A mask of places, by which each query sees the keys up to its own, becomes is_causal. Scores are then f32 at least,
// and not rounded in between, and a query of which all scores are -inf gets zeros where the program had NaN. It stays
// where the scores' softmax is read elsewhere too, as by its derivative. A pass for PassStage::traced; other graphs it
// leaves as they are.
GraphView fuse_attention(const GraphView& graph);

}  // namespace weft
