#include "ir/minimum_cut.hpp"

#include <algorithm>

namespace weft {

std::uint32_t MinimumCut::edge(std::uint32_t from, std::uint32_t to, std::int64_t capacity) {
  const auto add = [&](std::uint32_t a, std::uint32_t b) {
    edges_.push_back({b, first_[a], 0});
    first_[a] = static_cast<std::uint32_t>(edges_.size() - 1);
  };
  add(from, to);
  add(to, from);
  capacities_.push_back(capacity);
  return static_cast<std::uint32_t>(capacities_.size() - 1);
}

// Levels are distances to the sink. Stops at the source's level.
bool MinimumCut::find_levels(std::uint32_t source, std::uint32_t sink) {
  std::ranges::fill(level_, none);
  level_[sink] = 0;
  queue_.assign(1, sink);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const std::uint32_t at = queue_[i];
    if (level_[at] >= level_[source]) break;
    for (std::uint32_t e = first_[at]; e != none; e = edges_[e].next) {
      const std::uint32_t from = edges_[e].to;
      if (edges_[e ^ 1].left == 0 || level_[from] != none) continue;
      level_[from] = level_[at] + 1;
      queue_.push_back(from);
    }
  }
  return level_[source] != none;
}

void MinimumCut::push_flow(std::uint32_t source, std::uint32_t sink) {
  path_.clear();
  std::uint32_t at = source;
  while (true) {
    if (at == sink) {
      std::int64_t flow = unlimited;
      for (const std::uint32_t e : path_) flow = std::min(flow, edges_[e].left);
      std::size_t full = path_.size();
      for (std::size_t i = path_.size(); i-- > 0;) {
        edges_[path_[i]].left -= flow;
        edges_[path_[i] ^ 1].left += flow;
        if (edges_[path_[i]].left == 0) full = i;
      }
      at = edges_[path_[full] ^ 1].to;  // go on from the start of the first edge that is full
      path_.resize(full);
      continue;
    }
    std::uint32_t& e = current_[at];
    while (e != none && !(edges_[e].left > 0 && level_[edges_[e].to] != none && level_[edges_[e].to] + 1 == level_[at]))
      e = edges_[e].next;
    if (e != none) {
      path_.push_back(e);
      at = edges_[e].to;
      continue;
    }
    if (path_.empty()) return;
    level_[at] = none;  // it leads nowhere
    at = edges_[path_.back() ^ 1].to;
    path_.pop_back();
  }
}

const std::vector<bool>& MinimumCut::source_side(std::uint32_t source, std::uint32_t sink) {
  for (std::size_t i = 0; i < capacities_.size(); ++i) {
    edges_[2 * i].left = capacities_[i];
    edges_[2 * i + 1].left = 0;
  }
  level_.resize(first_.size());
  while (find_levels(source, sink)) {
    current_ = first_;
    push_flow(source, sink);
  }
  reached_.assign(first_.size(), false);
  reached_[source] = true;
  queue_.assign(1, source);
  for (std::size_t i = 0; i < queue_.size(); ++i)
    for (std::uint32_t e = first_[queue_[i]]; e != none; e = edges_[e].next)
      if (const std::uint32_t to = edges_[e].to; edges_[e].left > 0 && !reached_[to]) {
        reached_[to] = true;
        queue_.push_back(to);
      }
  return reached_;
}

}  // namespace weft
