// What can be one kernel. In: a grouping under way. Out: why a node can't be computed in a kernel, or one kernel in
// another, or the grouping with both as one. What is worth it is decided elsewhere (group.cpp, merge.cpp).
#pragma once
#include "schedule/group.hpp"

namespace weft {

// Compilation takes longer than such a kernel saves.
inline constexpr std::size_t most_members = 96;

// What a node reads through views and inlined values.
struct Reads {
  std::vector<int> groups;            // in which operands are computed, each once
  std::vector<std::uint32_t> values;  // that have memory or are computed in a group
  int deepest_other = 0;              // the deepest library step or assembled value
  bool beside = false;                // nothing of the kernel that it is to join
};

class Fit {
 public:
  // `borders`: a kernel ends at the border of a region's use.
  Fit(const Graph& graph, Grouping& grouping, Device device, bool borders)
      : graph_(graph), grouping_(grouping), on_host_(device.type == Device::Type::cpu), borders_(borders) {}

  Reads reads_of(const Node& node) const;
  // Why a node can't join a group; empty when it can.
  std::string obstacle(int group, const Node& node, const Reads& reads) const;
  void join(int group, const Node& node, const Reads& reads);
  // Joins all members of `from` to `into`, whose depth is then the deeper one of both; or says why not, and leaves both
  // as they were. No path may lead from the one to the other through a third.
  std::string absorb(int into, int from);

 private:
  const Graph& graph_;
  Grouping& grouping_;
  const bool on_host_;  // whose long reductions are cut only where nothing walks the rows again
  const bool borders_;
};

}  // namespace weft
