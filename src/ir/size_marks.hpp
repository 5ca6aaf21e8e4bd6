// What was said of a tensor's sizes (weft/compile.hpp): they vary within these numbers, or they do not. Kept beside the
// nodes, which do not change and which several threads may use. Any thread may call these.
#pragma once
#include <optional>

#include "ir/node.hpp"

namespace weft {

struct SizeMark {
  int axis;
  bool dynamic = false;
  std::int64_t least = 0, greatest = 0;
};

// Each result of a node has its own. In place of the axis's mark before.
void set_size_mark(const Tensor& value, const SizeMark& mark);
std::optional<SizeMark> size_mark(const Tensor& value, int axis);
// Of a node that is about to be freed.
void forget_size_marks(const Node& node);

}  // namespace weft
