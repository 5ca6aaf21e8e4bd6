// Attention that is written by hand (fusions/attention.hpp), where the device has a kernel for all of it.
#pragma once
#include "passes/context.hpp"

namespace weft {

Graph fuse_attention_by_hand(const Graph& graph, const PassContext& context);

}  // namespace weft
