// What a pass may ask about where its graph will run.
#pragma once
#include <functional>

#include "ir/node.hpp"

namespace weft {

struct PassContext {
  Device device;
  std::function<bool(const Node&)> provided;  // whether somebody does the operation there as it is
};

}  // namespace weft
