// Minimum cut of a directed graph between a source and a sink, by Dinic's algorithm, without recursion. In: edges with
// capacities. Out: the vertices on the source's side of the cut that is nearest to the source.
#pragma once
#include <cstdint>
#include <vector>

namespace weft {

class MinimumCut {
 public:
  static constexpr std::int64_t unlimited = std::int64_t{1} << 60;

  explicit MinimumCut(std::uint32_t vertices) : first_(vertices, none) {}
  // Its number.
  std::uint32_t edge(std::uint32_t from, std::uint32_t to, std::int64_t capacity);
  void set_capacity(std::uint32_t edge, std::int64_t capacity) { capacities_[edge] = capacity; }
  // By vertex. The sum of the cut's capacities must be below `unlimited`. May be called again, with other capacities.
  const std::vector<bool>& source_side(std::uint32_t source, std::uint32_t sink);

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Edge {
    std::uint32_t to, next;  // next of the same start
    std::int64_t left;       // capacity that no flow takes
  };
  bool find_levels(std::uint32_t source, std::uint32_t sink);
  void push_flow(std::uint32_t source, std::uint32_t sink);

  std::vector<std::uint32_t> first_;
  std::vector<Edge> edges_;               // two of each: the edge back is the one with the last bit changed
  std::vector<std::int64_t> capacities_;  // by number
  std::vector<std::uint32_t> level_, current_, queue_, path_;
  std::vector<bool> reached_;
};

}  // namespace weft
