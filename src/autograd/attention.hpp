// Attention that is written by hand, as the backward pass asks for it (decisions/0028). The answers are in
// pipeline/attention.cpp, above this folder: they depend on what a device's providers do whole.
#pragma once
#include <functional>

#include "ir/node.hpp"

namespace weft {

// The call of attention that takes the place of a product of weights and values, recorded now in the open trace.
// Undefined: the product ends no such attention, its weights have another reader, or no provider does the call whole.
Tensor attention_to_differentiate(const Node& product, const std::function<bool(const Node&)>& has_one_reader);
// Whether a provider does the call whole. The call is only worth it where one does its gradients whole too.
bool is_done_whole(const Node& call);

}  // namespace weft
