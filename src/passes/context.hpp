// What a pass may ask about where its graph will run, and whom it tells what it does.
#pragma once
#include <functional>

#include "ir/graph.hpp"

namespace weft {

struct Rewrite;

struct PassContext {
  Device device = {};
  std::function<bool(const Node&)> provided = {};               // whether somebody does the operation there as it is
  std::function<std::int64_t(const Node&)> size_multiple = {};  // of a product's sizes, where it is faster then; else 1
  std::function<void(const Rewrite&)> rewritten = {};  // called each time that a row of a table replaces a node
  double memory_budget = 1;                            // of CompileOptions (passes/rematerialize.hpp)
  std::vector<int> constant_inputs = {};               // of the graph, those that are the same in many calls
  // Bytes that a call of the graph would take beside arguments and constants, as its memory is planned. Asked only
  // below a budget of 1; without it they are estimated.
  std::function<std::int64_t(const Graph&)> planned = {};
  // How long nodes take, as ir/partition.hpp reads it. Asked only below a budget of 1; without it, it is estimated.
  std::function<std::vector<double>(const Graph&)> measured = {};

  bool provides(const Node& node) const { return provided && provided(node); }
};

using Pass = Graph (*)(const Graph&, const PassContext&);

}  // namespace weft
