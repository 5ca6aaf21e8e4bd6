// Values of tensors as the eager executor has them.
#pragma once
#include "eager/eager.hpp"

namespace weft {

// The first result's memory; null while it is not computed. It appears at once, with its layout: other threads may be
// looking.
Storage* computed(const Node* node);
void set_computed(Node* node, eager::Value value);  // of the first result

eager::Value value_of(const Tensor& tensor);  // of a tensor that is computed
Tensor tensor_of(eager::Value value, Loc loc);

bool is_plain(const eager::Value& value);  // contiguous, from the beginning of its memory
// The same, copied where it is not plain. Results beyond a node's first have no layout of their own.
eager::Value made_plain(const eager::Value& value);

}  // namespace weft
