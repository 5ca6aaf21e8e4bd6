#include "passes/gathers.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "ir/builder.hpp"
#include "ir/remade.hpp"
#include "ir/table.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

// A value is gathered again where so many others were read since it was read last.
constexpr std::size_t others_between = 2;
constexpr int none = -1;

bool is_leaf(const Node& node) { return info(node.op).kind == OpKind::leaf; }
bool is_light(const Node& node) {
  return is_view(node.op) || is_pointwise(node.op) || info(node.op).kind == OpKind::assemble;
}

class Placer {
 public:
  Placer(const Graph& graph, bool ahead) : graph_(graph), ahead_(ahead), gather_(graph.nodes.size(), none) {
    for (const Tensor& value : graph.nodes) taken_.insert(value.node()->recomputation);
  }

  Graph run() {
    find_gathers();
    if (count_ == 0) return graph_;
    order_nodes();
    find_uses();
    return make();
  }

 private:
  const Node& node(std::size_t i) const { return *graph_.nodes[i].node(); }
  template <class F>
  void each_operand(std::size_t i, F f) const {
    for (const Tensor& operand : node(i).inputs()) f(graph_.number(operand));
  }

  // Which gather each node belongs to: what is computed for it alone, itself, and what is computed from it.
  void find_gathers() {
    std::vector<int> before(graph_.nodes.size(), none);  // by node: the gather that it is computed for
    for (std::size_t i = 0; i < gather_.size(); ++i) {
      if (node(i).op != Op::all_gather || node(i).recomputation == 0) continue;
      const int gather = count_++;
      before[i] = gather;
      std::vector<std::size_t> open{i};
      while (!open.empty()) {
        const std::size_t at = open.back();
        open.pop_back();
        each_operand(at, [&](std::size_t operand) {
          const bool is_own = is_light(node(operand)) && node(operand).recomputation == node(i).recomputation;
          if (is_own && before[operand] == none) before[operand] = gather, open.push_back(operand);
        });
      }
    }
    for (std::size_t i = 0; i < gather_.size(); ++i) {
      gather_[i] = before[i];
      if (before[i] == none && (is_view(node(i).op) || info(node(i).op).kind == OpKind::cast))
        gather_[i] = gather_[graph_.number(node(i).input(0))];
    }
  }

  // The others in their new order: that of their recording, but for what is scattered.
  void order_nodes() {
    const auto count = static_cast<int>(gather_.size());
    std::vector<int> ready(gather_.size()), place(gather_.size());  // after which node
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      place[at] = i;
      ready[at] = none;
      if (is_leaf(node(at))) continue;
      if (gather_[at] != none || is_light(node(at)) || node(at).op == Op::reduce_scatter)
        each_operand(at, [&](std::size_t operand) { ready[at] = std::max(ready[at], ready[operand]); });
      else
        ready[at] = i;
    }
    for (std::size_t i = 0; i < gather_.size(); ++i) {
      if (node(i).op != Op::reduce_scatter || ready[i] == none) continue;
      const int after = ready[i];
      std::vector<std::size_t> open{i};
      while (!open.empty()) {
        const std::size_t at = open.back();
        open.pop_back();
        if (place[at] <= after || is_leaf(node(at))) continue;
        place[at] = after;
        each_operand(at, [&](std::size_t operand) { open.push_back(operand); });
      }
    }
    for (std::size_t i = 0; i < gather_.size(); ++i)
      if (gather_[i] == none) order_.push_back(i);
    std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return place[i]; });
  }

  // Which of its gathers each node reads: the first, the second ...
  void find_uses() {
    struct Use {
      std::size_t node;
      int gather;
    };
    std::vector<Use> uses;
    for (const std::size_t i : order_) {
      const std::size_t first = uses.size();
      each_operand(i, [&](std::size_t operand) {
        const int read = gather_[operand];
        if (read == none) return;
        if (std::none_of(uses.begin() + static_cast<std::ptrdiff_t>(first), uses.end(),
                         [&](const Use& use) { return use.gather == read; }))
          uses.push_back({i, read});
      });
    }
    std::vector<std::size_t> last(static_cast<std::size_t>(count_), SIZE_MAX);
    std::vector<std::uint32_t> turn(static_cast<std::size_t>(count_), 0);
    for (std::size_t u = 0; u < uses.size(); ++u) {
      const auto gather = static_cast<std::size_t>(uses[u].gather);
      if (last[gather] != SIZE_MAX) {
        std::unordered_set<int> between;
        for (std::size_t i = last[gather] + 1; i < u && between.size() < others_between; ++i)
          between.insert(uses[i].gather);
        turn[gather] += between.size() >= others_between;
      }
      last[gather] = u;
      turns_[{uses[u].node, uses[u].gather}] = turn[gather];
      const Turn now{uses[u].gather, turn[gather]};
      if (std::ranges::find(first_uses_, now) == first_uses_.end()) first_uses_.push_back(now);
    }
  }

  Graph make() {
    results_.resize(gather_.size());
    copies_.resize(static_cast<std::size_t>(count_));
    gathers_.resize(static_cast<std::size_t>(count_));
    for (std::size_t i = 0; i < gather_.size(); ++i)
      if (gather_[i] != none && node(i).op == Op::all_gather) gathers_[static_cast<std::size_t>(gather_[i])] = i;
    std::vector<Tensor> operands;
    for (const std::size_t i : order_) {
      if (is_leaf(node(i))) {
        results_[i] = results_of(graph_.nodes[i]);
        continue;
      }
      operands.clear();
      for (const Tensor& operand : node(i).inputs()) {
        if (const int read = gather_of(operand); read != none) turn_to(read, turns_.at({i, read}));
        operands.push_back(made(operand));
      }
      results_[i] = results_of(Builder::copy(node(i), operands));
    }
    return remade(graph_, [&](const Tensor& value) { return made(value); });
  }
  int gather_of(const Tensor& value) const { return gather_[graph_.number(value)]; }
  // Nodes that follow read the gather of this turn. Where gathers begin ahead, the next one begins here.
  void turn_to(int gather, std::uint32_t turn) {
    Copies& copies = copies_[static_cast<std::size_t>(gather)];
    copies.turn = turn;
    const Turn now{gather, turn};
    if (next_use_ == first_uses_.size() || first_uses_[next_use_] != now) return;
    ++next_use_;
    if (!ahead_) return;
    made(graph_.nodes[gathers_[static_cast<std::size_t>(gather)]]);
    if (next_use_ == first_uses_.size()) return;
    const auto [next, of_next] = first_uses_[next_use_];
    Copies& later = copies_[static_cast<std::size_t>(next)];
    const std::uint32_t before = std::exchange(later.turn, of_next);
    made(graph_.nodes[gathers_[static_cast<std::size_t>(next)]]);
    later.turn = before;
  }
  Tensor made(const Tensor& value) {
    const std::size_t number = graph_.number(value);
    if (gather_[number] == none) return results_[number][value.output()];
    Copies& copies = copies_[static_cast<std::size_t>(gather_[number])];
    const std::uint32_t turn = copies.turn;
    const std::pair key(number, turn);
    if (const auto found = copies.by_node.find(key); found != copies.by_node.end()) return found->second;
    if (copies.recomputations.size() <= turn) copies.recomputations.resize(turn + 1, 0);
    while (copies.recomputations[turn] == 0)
      if (taken_.insert(++last_taken_).second) copies.recomputations[turn] = last_taken_;
    std::vector<Tensor> operands;
    for (const Tensor& operand : node(number).inputs()) operands.push_back(made(operand));
    const Tensor copy = Builder::copy(node(number), operands);
    copy.node()->recomputation = copies.recomputations[turn];
    copies.by_node.emplace(key, copy);
    return copy;
  }

  // What belongs to a gather, and the turn that is read now.
  struct Copies {
    std::uint32_t turn = 0;
    std::vector<std::uint32_t> recomputations = {};                        // by turn
    std::map<std::pair<std::size_t, std::uint32_t>, Tensor> by_node = {};  // and by turn
  };
  struct Turn {
    int gather;
    std::uint32_t turn;
    bool operator==(const Turn&) const = default;
  };
  const Graph& graph_;
  const bool ahead_;
  std::vector<int> gather_;  // by node; none: it belongs to none
  int count_ = 0;
  std::vector<std::size_t> order_;                              // of the nodes that belong to none
  std::map<std::pair<std::size_t, int>, std::uint32_t> turns_;  // by the node that reads, and what it reads
  std::vector<std::vector<Tensor>> results_;                    // by node
  std::vector<Copies> copies_;                                  // by gather
  std::vector<std::size_t> gathers_;                            // by gather: its node
  std::vector<Turn> first_uses_;                                // in the order of their first readers
  std::size_t next_use_ = 0;                                    // of first_uses_: the first that is not read yet
  std::unordered_set<std::uint32_t> taken_;                     // numbers of recomputations
  std::uint32_t last_taken_ = 0;
};

}  // namespace

Graph place_gathers(const Graph& graph, const PassContext& context) {
  return Placer(in_bodies(graph, place_gathers, context), context.device.type != Device::Type::cpu).run();
}

}  // namespace weft
