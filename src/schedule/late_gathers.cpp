#include "schedule/late_gathers.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/builder.hpp"
#include "ir/remade.hpp"
#include "ir/table.hpp"

namespace weft {
namespace {

// A kernel computes so few operations again for another that reads their result.
constexpr std::size_t most_operations = 24;

bool is_leaf(const Node& node) { return info(node.op).kind == OpKind::leaf; }

class LateGathers {
 public:
  explicit LateGathers(const Graph& graph) : graph_(graph), results_(graph.nodes.size()) {
    for (const Tensor& value : graph.nodes)
      if (value.node()->op == Op::all_gather && value.node()->recomputation)
        gathers_.emplace(value.node()->recomputation, graph.number(value));
  }

  Graph run() {
    if (gathers_.empty()) return graph_;
    order_nodes();
    find_readers();
    find_copied();
    return make();
  }

 private:
  const Node& node(std::uint32_t i) const { return *graph_.nodes[i].node(); }
  bool is_of_gather(std::uint32_t i) const {
    return !is_leaf(node(i)) && node(i).recomputation && gathers_.contains(node(i).recomputation);
  }
  template <class F>
  void each_operand(std::uint32_t i, F f) const {
    for (const Tensor& operand : node(i).inputs()) f(graph_.number(operand));
  }

  void order_nodes() {
    place_.assign(graph_.nodes.size(), none);
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_collective(node(i))) collectives_.push_back(i);
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i)
      if (!is_of_gather(i)) add(i);
    for (const Tensor& output : graph_.outputs) add(graph_.number(output));
  }
  void add(std::uint32_t i) {
    if (place_[i] != none) return;
    each_operand(i, [&](std::uint32_t operand) { add(operand); });
    if (is_collective(node(i)))
      while (next_collective_ < collectives_.size() && collectives_[next_collective_] < i)
        add(collectives_[next_collective_++]);
    place_[i] = static_cast<std::uint32_t>(order_.size());
    order_.push_back(i);
  }

  void find_readers() {
    readers_.resize(graph_.nodes.size());
    for (const std::uint32_t i : order_)
      each_operand(i, [&](std::uint32_t operand) { readers_[operand].push_back(i); });
  }

  // A reader that is no part of the gather, of a value that is one.
  void find_copied() {
    std::unordered_map<std::uint32_t, std::uint32_t> first_read;  // by recomputation: the place
    for (const std::uint32_t i : order_)
      each_operand(i, [&](std::uint32_t operand) {
        if (is_read_by(operand, i)) first_read.emplace(node(operand).recomputation, place_[i]);
      });
    std::vector<std::uint32_t> reads;
    for (const auto& [recomputation, place] : first_read) reads.push_back(place);
    std::ranges::sort(reads);
    for (const std::uint32_t i : order_)
      each_operand(i, [&](std::uint32_t operand) {
        if (!is_read_by(operand, i) || !is_pointwise(node(i).op)) return;
        const std::uint32_t part = part_of(operand), recomputation = node(operand).recomputation;
        const Node& gather = node(gathers_.at(recomputation));
        const Dim elements = node(part).type.shape.element_count(), all = gather.type.shape.element_count();
        if (!elements.is_constant() || !all.is_constant() || 2 * elements.constant() > all.constant()) return;
        const auto later = std::ranges::upper_bound(reads, first_read.at(recomputation));
        if (later != reads.end() && may_be_read_after(i, *later)) copied_.insert(part);
      });
  }
  bool is_read_by(std::uint32_t value, std::uint32_t reader) const {
    return is_of_gather(value) && node(reader).recomputation != node(value).recomputation;
  }
  // Below expansions.
  std::uint32_t part_of(std::uint32_t value) const {
    std::uint32_t part = value;
    for (std::uint32_t at = value; is_view(node(at).op) && is_of_gather(graph_.number(node(at).input(0)));) {
      const bool expands = node(at).op == Op::expand;
      at = graph_.number(node(at).input(0));
      if (expands) part = at;
    }
    return part;
  }
  // Whether something after this place reads what is computed of the value on the way to memory.
  bool may_be_read_after(std::uint32_t value, std::uint32_t place) const {
    std::vector<std::uint32_t> open{value};
    for (std::size_t next = 0; next < open.size() && open.size() <= most_operations; ++next) {
      const std::vector<std::uint32_t>& readers = readers_[open[next]];
      const auto is_light = [&](std::uint32_t reader) {
        return is_pointwise(node(reader).op) || is_view(node(reader).op);
      };
      const bool has_memory = std::ranges::any_of(
          readers, [&](std::uint32_t reader) { return info(node(reader).op).kind == OpKind::contraction; });
      if (has_memory) continue;
      for (const std::uint32_t reader : readers) {
        if (place_[reader] > place) return true;
        if (is_light(reader) && std::ranges::find(open, reader) == open.end()) open.push_back(reader);
      }
    }
    return false;
  }

  Graph make() {
    std::vector<Tensor> operands;
    for (const std::uint32_t i : order_) {
      if (is_leaf(node(i))) {
        results_[i] = results_of(graph_.nodes[i]);
        continue;
      }
      operands.clear();
      for (const Tensor& operand : node(i).inputs()) operands.push_back(made(operand));
      results_[i] = results_of(Builder::copy(node(i), operands));
      if (copied_.contains(i)) results_[i][0] = Builder(node(i)).make(Op::cast, {results_[i][0]}, {}, node(i).type);
    }
    return remade(graph_, [&](const Tensor& value) { return made(value); });
  }
  Tensor made(const Tensor& value) const { return results_[graph_.number(value)][value.output()]; }

  static constexpr std::uint32_t none = UINT32_MAX;
  const Graph& graph_;
  std::unordered_map<std::uint32_t, std::uint32_t> gathers_;  // by recomputation: the all_gather
  std::vector<std::uint32_t> order_, place_;                  // nodes; by node: where it is among them
  std::vector<std::uint32_t> collectives_;                    // in their order
  std::size_t next_collective_ = 0;
  std::vector<std::vector<std::uint32_t>> readers_;  // by node
  std::unordered_set<std::uint32_t> copied_;
  std::vector<std::vector<Tensor>> results_;  // by node
};

}  // namespace

Graph with_late_gathers(const Graph& graph) { return LateGathers(graph).run(); }

bool is_copied_part(const Node& node) {
  return node.op == Op::cast && node.recomputation && node.type.dtype == node.input(0).node()->type.dtype &&
         !is_leaf(*node.input(0).node());
}

}  // namespace weft
