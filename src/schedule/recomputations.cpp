#include "schedule/recomputations.hpp"

#include <algorithm>
#include <unordered_map>

namespace weft {
namespace {

using Vertices = std::vector<std::uint32_t>;

// The vertices in groups: two are in one group where each comes before the other. A group comes after those that it
// reads. R. Tarjan, Depth-first search and linear graph algorithms, 1972; without recursion.
std::vector<Vertices> groups_in_order(const std::vector<Vertices>& before) {
  struct Visit {
    std::uint32_t vertex;
    std::size_t next = 0;  // of its list
  };
  constexpr std::uint32_t grouped = UINT32_MAX;
  std::vector<Vertices> groups;
  Vertices number(before.size()), lowest(before.size()), open;
  std::vector<Visit> path;
  std::uint32_t visited = 0;
  const auto enter = [&](std::uint32_t v) {
    number[v] = lowest[v] = ++visited;
    open.push_back(v);
    path.push_back({v});
  };
  for (std::uint32_t start = 0; start < before.size(); ++start) {
    if (!number[start]) enter(start);
    while (!path.empty()) {
      const std::uint32_t v = path.back().vertex;
      if (path.back().next < before[v].size()) {
        const std::uint32_t read = before[v][path.back().next++];
        if (!number[read])
          enter(read);
        else if (number[read] != grouped)
          lowest[v] = std::min(lowest[v], number[read]);
        continue;
      }
      path.pop_back();
      if (!path.empty()) lowest[path.back().vertex] = std::min(lowest[path.back().vertex], lowest[v]);
      if (lowest[v] != number[v]) continue;
      Vertices& group = groups.emplace_back();
      do {
        group.push_back(open.back());
        number[open.back()] = grouped;
        open.pop_back();
      } while (group.back() != v);
    }
  }
  return groups;
}

}  // namespace

// In the graph each recomputation is a vertex too, after what it reads and before its nodes. Two may wait for each
// other, where one is nested in the other: they begin together, after what both read from elsewhere.
std::vector<std::uint32_t> ranks_of_recomputations(const Graph& graph) {
  const auto count = static_cast<std::uint32_t>(graph.nodes.size());
  std::unordered_map<std::uint32_t, std::uint32_t> recomputations;  // their vertices, after those of the nodes
  for (const Tensor& value : graph.nodes)
    if (const std::uint32_t again = value.node()->recomputation)
      recomputations.emplace(again, count + static_cast<std::uint32_t>(recomputations.size()));
  if (recomputations.empty()) return {};
  std::vector<Vertices> before(count + recomputations.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const Node& node = *graph.nodes[i].node();
    const std::uint32_t own = node.recomputation ? recomputations.at(node.recomputation) : 0;
    if (own) before[i].push_back(own);
    for (const Tensor& operand : node.inputs()) {
      before[i].push_back(graph.number(operand));
      if (own && operand.node()->recomputation != node.recomputation) before[own].push_back(before[i].back());
    }
  }
  std::vector<std::uint32_t> ranks(before.size());
  std::vector<bool> done(before.size());
  for (Vertices& group : groups_in_order(before)) {
    std::ranges::sort(group);
    std::uint32_t wait = 0;
    for (const std::uint32_t v : group)
      for (const std::uint32_t read : before[v])
        if (v >= count && done[read]) wait = std::max(wait, ranks[read] + 1);
    for (const std::uint32_t v : group)
      if (v >= count) ranks[v] = wait;
    for (const std::uint32_t v : group) {
      if (v < count)
        for (const std::uint32_t read : before[v]) ranks[v] = std::max(ranks[v], ranks[read] + (read < count ? 1 : 0));
      done[v] = true;
    }
  }
  ranks.resize(count);
  return ranks;
}

}  // namespace weft
