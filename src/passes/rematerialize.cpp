#include "passes/rematerialize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/fail.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"
#include "ir/partition.hpp"

namespace weft {
namespace {

constexpr double least_share = 0.05;  // of what a call takes: less is not worth more time
constexpr double about = 1.1;         // of the goal: choices are few
constexpr int most_cuts = 2;
constexpr std::uint32_t near = 64;  // nodes: a kernel seldom holds a value for longer

using Flags = std::vector<bool>;  // by node

bool is_leaf(const Node& node) { return info(node.op).kind == OpKind::leaf; }
// A kernel computes it on its way.
bool is_passing(const Node& node) { return is_pointwise(node.op) || info(node.op).kind == OpKind::random; }
// May be part of a kernel that computes its operands too.
bool may_fuse(const Node& node) { return is_passing(node) || is_reduce(node.op); }

// Views of inputs and constants, and what kernels compute from these alone, element by element.
Flags made_of_leaves(const Graph& graph) {
  Flags made(graph.nodes.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    made[i] = is_leaf(node) ||
              ((is_pointwise(node.op) || is_view(node.op)) &&
               std::ranges::all_of(node.inputs(), [&](const Tensor& operand) { return made[graph.number(operand)]; }));
  }
  return made;
}

// What is done as soon as it can be, as the update of a parameter is when its gradient is there: nothing but outputs
// comes of it, and no product.
Flags leads_to_outputs_alone(const Graph& graph) {
  Flags tail(graph.nodes.size(), true);
  for (std::size_t i = tail.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i].node();
    tail[i] = tail[i] && !is_leaf(node) && (may_fuse(node) || is_view(node.op));
    if (!tail[i])
      for (const Tensor& operand : node.inputs()) tail[graph.number(operand)] = false;
  }
  return tail;
}

// A graph cut in two: what is computed until it holds the most, and the rest.
struct Halves {
  Flags is_first;  // the first half holds all that its nodes read
  Graph first;
  ForwardReads reads;  // of the second half

  // `takes_factors`: factors of a derivative that no gradient reaches are of the first half, though they are recorded
  // later: they are computed again with what they are made of.
  Halves(const Graph& graph, std::size_t last, bool takes_factors) : is_first(graph.nodes.size()) {
    // What only the second half reads, and what is made of leaves alone, belongs to it: it is computed there.
    const Flags of_leaves = made_of_leaves(graph);
    Flags is_read(graph.nodes.size());
    for (const std::vector<Tensor>* const roots : {&graph.outputs, &graph.effects})
      for (const Tensor& root : *roots) is_read[graph.number(root)] = true;
    for (std::size_t i = last + 1; i-- > 0;) {
      const Node& node = *graph.nodes[i].node();
      is_first[i] = is_leaf(node) || is_read[i] || !of_leaves[i];
      if (is_first[i])
        for (const Tensor& operand : node.inputs()) is_read[graph.number(operand)] = true;
    }
    const auto take = [&](const auto& self, std::size_t i) -> void {
      if (is_first[i]) return;
      is_first[i] = true;
      for (const Tensor& operand : graph.nodes[i].node()->inputs()) self(self, graph.number(operand));
    };
    for (std::size_t i = last + 1; i < is_first.size() && takes_factors; ++i) {
      const Node& node = *graph.nodes[i].node();
      const auto is_known = [&](const Tensor& operand) {
        const std::uint32_t number = graph.number(operand);
        return is_first[number] || of_leaves[number];
      };
      if (!of_leaves[i] && (is_passing(node) || is_view(node.op)) && std::ranges::all_of(node.inputs(), is_known))
        take(take, i);
    }
    for (std::size_t i = 0; i < is_first.size(); ++i)
      if (is_first[i]) first.add(graph.nodes[i]);
    first.inputs = graph.inputs;
    first.symbols = graph.symbols;
    std::vector<Tensor> roots = graph.effects;
    for (const Tensor& output : graph.outputs) {
      roots.push_back(output);
      if (is_first[graph.number(output)]) first.outputs.push_back(output);
    }
    reads = forward_reads(roots, [&](const Tensor& value) { return is_first[graph.number(value)] ? value : Tensor(); });
  }
};

class Rematerializer {
 public:
  Rematerializer(const Graph& graph, const Halves& halves, std::span<const SavedValue> saved)
      : graph_(graph), halves_(halves), copies_(graph.nodes.size()) {
    for (const SavedValue& each : saved) kept_.insert(each.value.word());
    for (const Tensor& output : graph.outputs) kept_.insert(output.word());
    for (const Tensor& value : graph.nodes) taken_.insert(value.node()->recomputation);
  }

  Graph run() {
    std::size_t at = 0;
    return rewrite(graph_, [&](const Node& node, std::span<const Tensor> operands) -> Rewritten {
      if (halves_.is_first[at++]) return {};
      std::vector<Tensor> read(operands.begin(), operands.end());
      bool changed = false;
      begins_ = true;
      for (std::size_t i = 0; i < read.size(); ++i)
        if (const Tensor& operand = node.input(i); is_first(operand) && !is_kept(operand)) {
          read[i] = again(operand);
          changed = true;
        }
      if (!changed) return {};
      const Tensor copy = Builder::copy(node, read);
      return node.output_count == 1 ? Rewritten(copy) : Rewritten(results_of(copy));
    });
  }

 private:
  bool is_first(const Tensor& value) const { return halves_.is_first[graph_.number(value)]; }
  // Whether the second half reads it as it is: it takes no memory, or is saved.
  bool is_kept(Tensor value) const {
    while (!kept_.contains(value.word())) {
      const Node& node = *value.node();
      if (is_leaf(node)) return true;
      if (!is_view(node.op)) return false;
      value = node.input(0);
    }
    return true;
  }
  // With all that it is made of, down to what is kept.
  Tensor again(const Tensor& value) {
    std::vector<std::uint32_t> needed{graph_.number(value)};
    std::unordered_set<std::uint32_t> met;
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (!copies_[needed[i]].empty()) continue;
      for (const Tensor& operand : graph_.nodes[needed[i]].node()->inputs())
        if (!is_kept(operand) && met.insert(graph_.number(operand)).second) needed.push_back(graph_.number(operand));
    }
    std::ranges::sort(needed);
    for (const std::uint32_t each : needed) {
      if (!copies_[each].empty()) continue;
      const Node& node = *graph_.nodes[each].node();
      std::vector<Tensor> operands;
      for (const Tensor& operand : node.inputs())
        operands.push_back(is_kept(operand) ? operand : copies_[graph_.number(operand)][operand.output()]);
      const Tensor copy = Builder::copy(node, operands);
      copy.node()->recomputation = recomputation();
      copies_[each] = results_of(copy);
    }
    return copies_[graph_.number(value)][value.output()];
  }
  // The same for all that one reader needs first.
  std::uint32_t recomputation() {
    if (begins_) do
        ++number_;
      while (taken_.contains(number_));
    begins_ = false;
    return number_;
  }

  const Graph& graph_;
  const Halves& halves_;
  std::unordered_set<std::uint64_t> kept_;
  std::unordered_set<std::uint32_t> taken_;  // numbers of recomputations
  std::vector<std::vector<Tensor>> copies_;  // results, by node
  std::uint32_t number_ = 0;
  bool begins_ = true;
};

std::int64_t bytes_of(const Tensor& value, const Graph& graph) {
  const std::int64_t elements = dims::at_hints(type_of(value).shape.element_count(), graph.symbols);
  return static_cast<std::int64_t>(storage_bytes(type_of(value).dtype, elements));
}
std::int64_t bytes_of(std::span<const SavedValue> saved) {
  std::int64_t sum = 0;
  for (const SavedValue& each : saved) sum += each.bytes;
  return sum;
}

}  // namespace

HeldBytes held_bytes(const Graph& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::uint32_t> base(count), when(count), last(count);
  Flags is_stored(count), is_output(count);
  const Flags of_leaves = made_of_leaves(graph), is_tail = leads_to_outputs_alone(graph);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Node& node = *graph.nodes[i].node();
    base[i] = is_view(node.op) ? base[graph.number(node.input(0))] : i;
    when[i] = is_tail[i] ? 0 : i;
    for (const Tensor& operand : node.inputs())
      if (is_tail[i]) when[i] = std::max(when[i], when[graph.number(operand)]);
    last[i] = when[i];
    is_stored[i] = !is_passing(node);
    if (is_view(node.op)) continue;
    for (const Tensor& operand : node.inputs()) {
      const std::uint32_t read = base[graph.number(operand)];
      if (!may_fuse(node) || when[i] > when[read] + near) is_stored[read] = true;
      last[read] = std::max(last[read], when[i]);
    }
  }
  for (const Tensor& output : graph.outputs) is_output[base[graph.number(output)]] = true;
  std::vector<std::int64_t> taken(count), freed(count);  // before and after a node
  for (std::uint32_t i = 0; i < count; ++i) {
    if (base[i] != i || !is_stored[i] || is_output[i] || of_leaves[i]) continue;
    for (const Tensor& result : results_of(graph.nodes[i])) {
      taken[when[i]] += bytes_of(result, graph);
      freed[last[i]] += bytes_of(result, graph);
    }
  }
  HeldBytes held;
  std::int64_t now = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    now += taken[i];
    if (now > held.most) held = {now, i};
    now -= freed[i];
  }
  return held;
}

namespace {

// What may be saved where the graph is cut at its peak: few choices that by estimate hold less, and take more time, one
// than the one before, about evenly spaced by what they hold.
class Choices {
 public:
  // `graph` must live as long as this.
  Choices(const Graph& graph, HeldBytes held, const PassContext& context, bool is_deep)
      : graph_(graph),
        halves_(graph, held.at, is_deep),
        partitions_(halves_.first, halves_.reads,
                    context.measured ? context.measured(halves_.first) : std::vector<double>(), is_deep) {
    if (halves_.reads.values.empty()) return;
    add(0, first_weight, partitions_.cheap());
    cheap_bytes_ = all_[0].bytes;
    for (double weight = first_weight; weight > last_weight; weight *= weight_step)
      add_between(all_.size() - 1, weight);
    for (int turn = 0; turn < most_turns; ++turn)
      if (!halve_widest()) break;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::erase_if(
        all_, [&](const Choice& choice) { return choice.held >= std::exchange(least, std::min(least, choice.held)); });
  }

  std::size_t count() const { return all_.size(); }
  Graph make(std::size_t i) const { return made_of(all_[i].saved); }
  // That are saved where nothing expensive is computed again.
  std::int64_t cheap_bytes() const { return cheap_bytes_; }

 private:
  struct Choice {
    double first, last;  // weights of time that give it
    std::vector<SavedValue> saved;
    std::int64_t bytes, held;
  };
  static constexpr double first_weight = 1, last_weight = 1e-4, weight_step = 0.4, closest = 1.003;
  static constexpr int most_turns = 24;
  static constexpr std::size_t most_choices = 12;

  Graph made_of(std::span<const SavedValue> saved) const { return Rematerializer(graph_, halves_, saved).run(); }
  void add(std::size_t at, double weight, std::vector<SavedValue> saved) {
    const std::int64_t bytes = bytes_of(saved), held = held_bytes(made_of(saved)).most;
    all_.insert(all_.begin() + static_cast<std::ptrdiff_t>(at), {weight, weight, std::move(saved), bytes, held});
  }
  // What is saved at a weight between those of one choice and of the next, unless it is one of them.
  void add_between(std::size_t at, double weight) {
    std::vector<SavedValue> saved = partitions_.at(weight);
    const std::int64_t bytes = bytes_of(saved);
    if (bytes >= all_[at].bytes)
      all_[at].last = weight;
    else if (at + 1 < all_.size() && bytes <= all_[at + 1].bytes)
      all_[at + 1].first = weight;
    else
      add(at + 1, weight, std::move(saved));
  }
  // Of layers that are alike some: between the two choices of which the second holds the most less than what is held
  // with less time, or after the one that holds the least, where the next one may save too little. False where all are
  // close.
  bool halve_widest() {
    const auto best = std::ranges::min_element(all_, {}, &Choice::held);
    std::int64_t least = all_[0].held, gap = 0;
    std::size_t widest = 0, count = 1;
    for (std::size_t i = 0; i + 1 < all_.size(); ++i) {
      const std::int64_t less = least - all_[i + 1].held;
      least = std::min(least, all_[i + 1].held);
      count += less > 0;
      const std::int64_t between = &all_[i] == &*best ? all_[i].bytes - all_[i + 1].bytes : less;
      if (between > gap && all_[i].last > closest * all_[i + 1].first) widest = i, gap = between;
    }
    if (gap == 0 || count >= most_choices) return false;
    add_between(widest, std::sqrt(all_[widest].last * all_[widest + 1].first));
    return true;
  }

  const Graph& graph_;
  const Halves halves_;
  Partitions partitions_;
  std::vector<Choice> all_;
  std::int64_t cheap_bytes_ = 0;
};

}  // namespace

// The choices do not depend on the budget. They are bisected, as each should take less than the one before: few are
// planned. The first one that meets the goal is taken, or else that which took the least. One before a choice that
// meets the goal counts only where it takes no less than that: so a smaller budget never takes more, whatever plans
// take. Where none meets it, choices for a deep stack of layers are asked, which save what goes on from layer to layer.
Graph rematerialize(const Graph& graph, const PassContext& context) {
  if (context.memory_budget >= 1 || held_bytes(graph).most == 0) return graph;
  const auto taken = [&](const Graph& of) {
    return static_cast<double>(context.planned ? context.planned(of) : held_bytes(of).most);
  };
  const double before = taken(graph);
  Graph best = graph;
  double least = (1 - least_share) * before;
  std::optional<double> goal;
  bool is_met = false;
  for (const bool is_deep : {false, true}) {
    Graph base = graph;
    for (int turn = 0; turn < most_cuts && !is_met; ++turn) {
      const HeldBytes held = held_bytes(base);
      // Once more, where the most is held by what is computed again: a long chain in parts.
      if (turn > 0 && base.nodes[held.at].node()->recomputation == 0) break;
      const Choices choices(base, held, context, is_deep);
      const double most = least;
      std::size_t first = 0, end = choices.count();
      for (std::size_t i = goal ? end / 2 : 0; first < end; i = first + (end - first) / 2) {
        Graph made = choices.make(i);
        const double bytes = taken(made);
        if (!goal)
          goal = std::min(before, bytes) - (1 - context.memory_budget) * static_cast<double>(choices.cheap_bytes());
        const bool meets = bytes < most && bytes <= about * *goal && (!is_met || bytes >= least);
        (meets ? end : first) = meets ? i : i + 1;
        if (!meets && (is_met || bytes >= least)) continue;  // of equal memory the faster
        is_met |= meets;
        best = std::move(made);
        least = bytes;
      }
      if (!goal) break;
      base = best;
    }
  }
  return best;
}

std::vector<std::string> recomputed_texts(const Graph& graph) {
  struct Part {
    double time = 0;
    std::size_t operations = 0;
    const Node* reader = nullptr;
    std::vector<Tensor> values;
  };
  std::map<std::uint32_t, Part> parts;  // by recomputation
  const std::vector<double> times = times_of(graph);
  const double time = std::accumulate(times.begin(), times.end(), 0.0);
  std::unordered_set<std::uint64_t> met;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    if (node.recomputation) {
      parts[node.recomputation].time += times[i];
      parts[node.recomputation].operations += !is_view(node.op);
    }
    if (node.recomputation || is_view(node.op)) continue;
    for (Tensor value : node.inputs()) {
      while (is_view(value.node()->op)) value = value.node()->input(0);
      if (!value.node()->recomputation) continue;
      Part& part = parts[value.node()->recomputation];
      if (!part.reader) part.reader = &node;
      if (met.insert(value.word()).second) part.values.push_back(value);
    }
  }
  const auto place = [](const Node& node) { return node.loc.file ? ", at " + to_string(node.loc) : std::string(); };
  std::vector<std::string> texts;
  Part before;  // what only recomputations read counts for the next one
  for (auto& [number, part] : parts) {
    part.time += before.time;
    part.operations += before.operations;
    before = part.reader ? Part() : part;
    if (!part.reader) continue;
    char share[32];
    std::snprintf(share, sizeof share, "%.2g", 100 * part.time / std::max(time, 1.0));
    texts.push_back(concat_text("for ", name_of(*part.reader), place(*part.reader), ": ", part.operations,
                                " operations, about ", share, " % of the time"));
    for (const Tensor& value : part.values)
      texts.push_back(concat_text("  ", bytes_of(value, graph), " bytes: ", name_of(*value.node()), ", ",
                                  to_string(type_of(value)), place(*value.node()), ": not held until then"));
  }
  return texts;
}

}  // namespace weft
