// What a pass may ask about where its graph will run, and whom it tells what it does.
#pragma once
#include <functional>

#include "ir/graph.hpp"

namespace weft {

struct Rewrite;

struct PassContext {
  Device device = {};
  std::function<bool(const Node&)> provided = {};      // whether somebody does the operation there as it is
  std::function<void(const Rewrite&)> rewritten = {};  // called each time that a row of a table replaces a node
  double memory_budget = 1;                            // of CompileOptions (passes/rematerialize.hpp)

  bool provides(const Node& node) const { return provided && provided(node); }
};

using Pass = Graph (*)(const Graph&, const PassContext&);

}  // namespace weft
