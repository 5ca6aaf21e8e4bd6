#include "schedule/merge.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

namespace weft {
namespace {

// Of the readers of a value, how many are candidates for one more.
constexpr std::size_t most_neighbours = 4;

// Who reads the results of a group, in the order of depths: it may run as late as just before the first. The depth that
// the reader had at first, and its group then; -1: a step that is no group.
using Readers = std::set<std::pair<int, int>>;

class Merger {
 public:
  Merger(const Graph& graph, Grouping& grouping, Fit& fit, const Score& score)
      : graph_(graph), grouping_(grouping), fit_(fit), score_(score), readers_(grouping.groups.size()) {}

  void run() {
    find_readers();
    find_pairs();
    while (!queue_.empty()) {
      const Pair pair = queue_.top();
      queue_.pop();
      const int a = grouping_.find(pair.a), b = grouping_.find(pair.b);
      if (a == b) continue;
      const double merit = merit_of(a, b, pair.shared);
      if (merit < pair.merit && !queue_.empty() && merit < queue_.top().merit && merit > 0) {
        queue_.push({merit, pair.shared, pair.a, pair.b});  // one of them has grown since
        continue;
      }
      std::string why = merit <= 0 ? "one kernel would have too few units, or walk too many values" : merge(a, b);
      if (!why.empty()) refused_.push_back({pair, std::move(why)});
    }
    note_refused();
  }

 private:
  struct Pair {
    double merit, shared;
    int a, b;  // a first in recording order
    bool operator<(const Pair& other) const {
      if (merit != other.merit) return merit < other.merit;
      return a != other.a ? a > other.a : b > other.b;
    }
  };

  void find_readers() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = *graph_.nodes[i].node();
      const Placement& placement = grouping_.nodes[i];
      if (placement.role == Role::inlined || placement.role == Role::leaf) continue;
      const int self = placement.role == Role::grouped ? grouping_.find(placement.group) : -1;
      const int depth = self >= 0 ? grouping_.group(self).depth : placement.depth;
      for (const int read : fit_.reads_of(node).groups)
        if (read != self) readers_[static_cast<std::size_t>(read)].emplace(depth, self);
    }
  }

  // Readers of a value over one domain, the first and the latest.
  void find_pairs() {
    std::unordered_map<std::uint64_t, double> shared;  // by both groups
    std::unordered_map<std::uint32_t, std::vector<int>> readers;
    const auto link = [&](int a, int b, std::uint32_t value) {
      if (!grouping_.group(a).domain.same(grouping_.group(b).domain)) return false;
      shared[static_cast<std::uint64_t>(std::min(a, b)) << 32 | static_cast<std::uint32_t>(std::max(a, b))] +=
          score_.bytes(*graph_.nodes[value].node());
      return true;
    };
    for (std::size_t g = 0; g < grouping_.groups.size(); ++g) {
      if (grouping_.groups[g].merged_into >= 0) continue;
      const int group = static_cast<int>(g);
      for (const std::uint32_t value : grouping_.groups[g].reads) {
        // One element, which many read: it makes neighbours of kernels of one element alone.
        if (graph_.nodes[value].node()->type.shape.element_count().same(Dim(1)) &&
            !grouping_.groups[g].domain.element_count().same(Dim(1)))
          continue;
        const Placement& placement = grouping_.nodes[value];
        if (placement.role == Role::grouped) link(grouping_.find(placement.group), group, value);
        std::vector<int>& others = readers[value];
        bool first_of_domain = true;
        for (const int other : others) first_of_domain &= !link(other, group, value);
        if (others.size() < most_neighbours)
          others.push_back(group);
        else if (!first_of_domain)
          others.back() = group;
        else
          others[others.size() / 2] = group;
      }
    }
    for (const auto& [groups, bytes] : shared) {
      const int a = static_cast<int>(groups >> 32), b = static_cast<int>(groups & 0xffffffff);
      if (are_one_launch(grouping_.group(a), grouping_.group(b), bytes)) continue;
      queue_.push({merit_of(a, b, bytes), bytes, a, b});
    }
  }

  // Products of several matrices with one vector, say: as kernels of one text they are one launch, and further ones
  // with other numbers of rows may join them. What is read twice is next to nothing.
  bool are_one_launch(const Group& a, const Group& b, double shared) const {
    constexpr double little = 1.0 / 64;
    if (!score_.launches_tables() || a.depth != b.depth || a.members.size() != b.members.size()) return false;
    for (std::size_t i = 0; i < a.members.size(); ++i) {
      const Node &of_a = *graph_.nodes[a.members[i]].node(), &of_b = *graph_.nodes[b.members[i]].node();
      if (of_a.op != of_b.op || of_a.type.dtype != of_b.type.dtype) return false;
    }
    const auto bytes_of = [&](const Group& group) {
      double bytes = 0;
      for (const std::uint32_t value : group.reads) bytes += score_.bytes(*graph_.nodes[value].node());
      return bytes;
    };
    return shared < little * std::min(bytes_of(a), bytes_of(b));
  }

  double merit_of(int a, int b, double shared) const {
    return merit(graph_, score_, grouping_.group(a), grouping_.group(b), shared);
  }

  // The one that is not as deep runs as late as the other: nobody but that one may read it before.
  bool may_wait(int group, int other) {
    Readers& readers = readers_[static_cast<std::size_t>(group)];
    for (auto it = readers.begin(); it != readers.end();) {
      const auto [depth, reader] = *it;
      const int now = reader < 0 ? reader : grouping_.find(reader);
      if (now != reader || now == group) {  // it has become part of another kernel, or of this one
        it = readers.erase(it);
        if (now != group && readers.emplace(depth, now).second) it = readers.find({depth, now});
        continue;
      }
      if (now != other) return grouping_.group(other).depth < depth;
      ++it;
    }
    return true;
  }

  std::string merge(int a, int b) {
    if (grouping_.group(a).depth > grouping_.group(b).depth) std::swap(a, b);
    if (!may_wait(a, b)) return "what reads the one is read by the other";
    std::string why = fit_.absorb(a, b);
    if (!why.empty() && grouping_.group(a).depth == grouping_.group(b).depth && fit_.absorb(b, a).empty()) {
      why.clear();
      std::swap(a, b);
    }
    if (!why.empty()) return why;
    Readers &of = readers_[static_cast<std::size_t>(a)], &from = readers_[static_cast<std::size_t>(b)];
    if (of.size() < from.size()) of.swap(from);
    of.merge(from);
    from.clear();
    return {};
  }

  // A line for each kernel that stayed apart from an earlier one: what that costs most.
  void note_refused() {
    std::map<int, const RefusedMerge*> most;  // by the later of both
    for (const RefusedMerge& refused : refused_) {
      const int a = grouping_.find(refused.pair.a), b = grouping_.find(refused.pair.b);
      const RefusedMerge*& seen = most[std::max(a, b)];
      if (a != b && (!seen || seen->pair.shared < refused.pair.shared)) seen = &refused;
    }
    for (const auto& [group, refused] : most) {
      if (!refused) continue;
      const int a = grouping_.find(refused->pair.a), b = grouping_.find(refused->pair.b);
      grouping_.note(*graph_.nodes[grouping_.group(std::max(a, b)).members.front()].node(),
                     "is not merged with the kernel of %" +
                         std::to_string(grouping_.group(std::min(a, b)).members.front()) + ": " + refused->why + "; " +
                         std::to_string(static_cast<std::int64_t>(refused->pair.shared)) + " bytes are read again");
    }
  }

  const Graph& graph_;
  Grouping& grouping_;
  Fit& fit_;
  const Score& score_;
  std::vector<Readers> readers_;  // by group
  std::priority_queue<Pair> queue_;
  struct RefusedMerge {
    Pair pair;
    std::string why;
  };
  std::vector<RefusedMerge> refused_;
};

}  // namespace

double merit(const Graph& graph, const Score& score, const Group& a, const Group& b, double shared) {
  double costs = 0;
  const double elements = score.elements(a.domain);
  if (a.reduces != b.reduces) {
    const Group& reducing = a.reduces ? a : b;
    double units = 1;
    for (int i = 0; i < reducing.domain.rank(); ++i)
      if (!reducing.inner[i]) units *= score.number(reducing.domain[i]);
    double walked = elements * 4;
    for (const std::uint32_t value : (a.reduces ? b : a).reads) walked += score.bytes(*graph.nodes[value].node());
    costs += walked * (std::max(1.0, score.units(walked) / std::max(units, 1.0)) - 1);
  }
  constexpr std::size_t most_values = 32;
  if (a.reads.size() + b.reads.size() > most_values)
    costs += static_cast<double>(a.reads.size() + b.reads.size() - most_values) * elements * 4;
  return shared + score.launch() - costs;
}

void merge_groups(const Graph& graph, Grouping& grouping, Fit& fit, const Score& score) {
  Merger(graph, grouping, fit, score).run();
}

}  // namespace weft
