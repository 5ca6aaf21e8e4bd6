#include "ir/partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "ir/host_function.hpp"
#include "ir/minimum_cut.hpp"

namespace weft {
namespace {

constexpr double bytes_of_addition = 0.25;  // that memory moves meanwhile: vectors do four additions in a byte's time
// Multiplications and additions of products, in the time of an addition elsewhere; 16 bits have instructions of their
// own.
constexpr double products_at_once = 8, narrow_products_at_once = 32;
constexpr double time_weight = 0.25;  // memory that is free counts for more than the time in which it is moved
constexpr std::int64_t units = 16;    // of capacity, in a byte

// Whether what it gives jumps where an operand changes in its last bit.
bool decides(const Node& node) {
  switch (node.op) {
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
    case Op::sign:
    case Op::floor_divide:
    case Op::remainder:
    case Op::fmod:
    case Op::argmax:
    case Op::argsort: return true;
    case Op::cast: return is_floating(type_of(node.input(0)).dtype) && !is_floating(node.type.dtype);
    case Op::call:
      return node.bodies().empty() ||
             std::ranges::any_of(node.bodies()[0]->nodes, [](const Tensor& value) { return decides(*value.node()); });
    default: return info(node.op).dtypes == DTypeClass::comparison || is_loop(node.op);
  }
}

// Of one node, or of the body of a call.
struct Work {
  double time = 0;         // of computing it again, in bytes
  bool expensive = false;  // only for a budget below 1; by another kernel its last bits may differ
  bool never = false;
};

class Costs {
 public:
  explicit Costs(const Graph& graph) : symbols_(graph.symbols) {}

  std::int64_t elements(const Tensor& value) const {
    return dims::at_hints(type_of(value).shape.element_count(), symbols_);
  }
  std::int64_t bytes(const Tensor& value) const {
    return static_cast<std::int64_t>(storage_bytes(type_of(value).dtype, elements(value)));
  }
  Work of(const Node& node) {
    Work work = computed(node);
    // What walks over its operands reads more than it gives.
    if (walks(node))
      for (const Tensor& operand : node.inputs()) work.time += static_cast<double>(bytes(operand));
    return work;
  }

 private:
  static double at_once(const Node& node) {
    return info(type_of(node.input(0)).dtype).bits <= 16 ? narrow_products_at_once : products_at_once;
  }
  static bool walks(const Node& node) {
    if (node.op == Op::call && !node.bodies().empty())
      return std::ranges::any_of(node.bodies()[0]->nodes, [](const Tensor& value) { return walks(*value.node()); });
    return is_reduce(node.op) || is_cumulative(node.op);
  }
  Work computed(const Node& node) {
    const double own = static_cast<double>(elements(Tensor(const_cast<Node*>(&node))));
    const auto additions = [](double count) { return count * bytes_of_addition; };
    const auto read = [&](std::size_t i) { return static_cast<double>(elements(node.input(i))); };
    if (runs_once(node) || is_effect(node)) return {0, false, true};
    switch (info(node.op).kind) {
      case OpKind::pointwise:
      case OpKind::cast: return {additions(own * info(node.op).cost)};
      case OpKind::leaf:
      case OpKind::view:
      case OpKind::identity:
      case OpKind::random: return {};  // a draw is a function of its offset
      case OpKind::assemble: return {additions(own)};
      case OpKind::reduce:
      case OpKind::cumulative: return {additions(read(0))};
      case OpKind::index: return {4 * own, is_scatter(node.op)};
      case OpKind::contraction: {
        const Shape& left = type_of(node.input(0)).shape;
        const Dim shared = left[left.rank() - 1];
        return {additions(2 * own * static_cast<double>(dims::at_hints(shared, symbols_)) / at_once(node)), true};
      }
      case OpKind::convolution: return {additions(2 * own * read(1) / at_once(node)), true};
      case OpKind::order: return {additions(64 * own), true};
      case OpKind::factorization: return {additions(own * own), true};
      case OpKind::region:
        if (node.op != Op::call || node.bodies().empty()) return {0, false, true};
        return of_body(*node.bodies()[0]);
      default: return {0, false, true};
    }
  }
  const Work& of_body(const Graph& body) {
    if (const auto found = bodies_.find(&body); found != bodies_.end()) return found->second;
    Work all;
    for (const Tensor& value : body.nodes) {
      const Work each = computed(*value.node());
      all = {all.time + each.time, all.expensive || each.expensive, all.never || each.never};
    }
    return bodies_[&body] = all;
  }

  std::span<const DimSymbol> symbols_;
  std::unordered_map<const Graph*, Work> bodies_;  // calls of a signature share theirs
};

class Partitioner {
 public:
  Partitioner(const Graph& graph, const ForwardReads& reads, std::span<const double> times, bool bounds_chains = false)
      : graph_(graph), costs_(graph), times_(times), nodes_(graph.nodes.size()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = *graph.nodes[i].node();
      nodes_[i].outputs.resize(node.output_count);
      if (info(node.op).kind == OpKind::leaf && node.op != Op::iota)
        for (Output& output : nodes_[i].outputs) output.is_there = true;
    }
    for (const Tensor& output : graph.outputs) at(output).is_there = true;
    for (const Tensor& value : reads.values) at(value).is_read = true;
    for (const Tensor& value : reads.compared) nodes_[graph.number(value)].is_exact = true;
    if (bounds_chains) bound_chains();
    for (std::size_t i = nodes_.size(); i-- > 0;) visit(i);
    build();
  }

  std::vector<SavedValue> saved(double budget) {
    if (budget >= 1) return cheap();
    Cut best = cut(0, true);
    const auto wanted = static_cast<std::int64_t>(budget * static_cast<double>(bytes(cut(time_weight, false))));
    const std::int64_t most = std::max(wanted, bytes(best));
    // The more a byte counts against time, the less is saved: the greatest weight of time that fits.
    double fits = -40, exceeds = -2;  // exponents
    for (int turn = 0; turn < 16; ++turn) {
      const double middle = (fits + exceeds) / 2;
      Cut made = cut(std::exp2(middle), true);
      const bool is_small = bytes(made) <= most;
      (is_small ? fits : exceeds) = middle;
      if (is_small) best = std::move(made);
    }
    return list(best);
  }
  std::vector<SavedValue> cheap() { return list(cut(time_weight, false)); }
  std::vector<SavedValue> at(double weight) { return list(cut(weight, true)); }

 private:
  struct Output {
    bool is_there = false;   // an argument, a result or a constant: the derivative reads it anyway
    bool is_read = false;    // by the derivative
    bool is_wanted = false;  // by it, or by what may be computed again
  };
  struct Entry {
    std::vector<Output> outputs;
    bool is_exact = false;      // a comparison depends on its bits
    bool is_candidate = false;  // one of its results is saved or computed again
    bool ends_chain = false;    // it is saved
    Work work;
  };
  // A node that may be computed again, and what the edge from the source costs.
  struct Again {
    std::uint32_t edge;
    bool is_expensive, is_never;
    double time;
  };
  // A value that may be saved.
  struct Value {
    std::uint32_t node, output;
    std::uint32_t from, to;  // vertices
    std::int64_t bytes;
  };
  using Cut = std::vector<std::uint32_t>;  // into values_
  static constexpr std::uint32_t source = 0, sink = 1;

  Output& at(const Tensor& value) { return nodes_[graph_.number(value)].outputs[value.output()]; }
  const Node& node(std::size_t i) const { return *graph_.nodes[i].node(); }

  // Values that the derivative reads, each made of the one before by cheap operations, as the sums of residual blocks
  // are: computing the last one again is cheap, and takes all of them at once. So some of them are saved.
  void bound_chains() {
    constexpr int longest = 4;
    std::vector<bool> is_read(nodes_.size());  // it, or a view of it
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      is_read[i] = is_read[i] || nodes_[i].outputs[0].is_read;
      if (is_read[i] && is_view(node(i).op)) is_read[graph_.number(node(i).input(0))] = true;
    }
    std::vector<int> read(nodes_.size(), 0);  // so far in a chain
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const OpKind kind = info(node(i).op).kind;
      if (kind != OpKind::pointwise && kind != OpKind::cast && kind != OpKind::view && !is_reduce(node(i).op)) continue;
      for (const Tensor& operand : node(i).inputs()) read[i] = std::max(read[i], read[graph_.number(operand)]);
      if (kind == OpKind::view || !is_read[i] || ++read[i] < longest) continue;
      nodes_[i].ends_chain = true;
      read[i] = 0;
    }
  }

  // After all that reads its results.
  void visit(std::size_t i) {
    Entry& entry = nodes_[i];
    for (Output& output : entry.outputs) {
      output.is_wanted |= output.is_read;
      output.is_wanted &= !output.is_there;
      entry.is_candidate |= output.is_wanted;
    }
    // What runs once is saved, though nothing reads it yet: a derivative of the derivative can't have it otherwise.
    if (runs_once(node(i)))
      for (Output& output : entry.outputs) entry.is_candidate |= output.is_wanted |= !output.is_there;
    if (!entry.is_candidate) return;
    entry.work = costs_.of(node(i));
    if (i < times_.size() && times_[i] >= 0) entry.work.time = times_[i];
    if ((entry.is_exact && entry.work.expensive) || entry.ends_chain) entry.work.never = true;
    if (entry.work.never) return;
    const bool exact = entry.is_exact || decides(node(i));
    for (const Tensor& operand : node(i).inputs()) {
      at(operand).is_wanted = true;
      nodes_[graph_.number(operand)].is_exact |= exact;
    }
  }

  // The graph that is cut. Only the capacities from the source depend on the weight of time.
  void build() {
    std::vector<std::uint32_t> first(nodes_.size());  // the vertex of a node; those of its results follow
    std::uint32_t vertices = 2;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      first[i] = vertices;
      if (nodes_[i].is_candidate) vertices += 1 + static_cast<std::uint32_t>(nodes_[i].outputs.size());
    }
    cuts_.emplace(vertices);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Entry& entry = nodes_[i];
      if (!entry.is_candidate) continue;
      // Of equal layers the first ones are computed again: their values would be held for the longest time.
      const double later = 1 + 0.05 * static_cast<double>(i) / static_cast<double>(nodes_.size());
      again_.push_back(
          {cuts_->edge(source, first[i], 0), entry.work.expensive, entry.work.never, entry.work.time * later * units});
      for (std::uint32_t k = 0; k < entry.outputs.size(); ++k) {
        const Output& output = entry.outputs[k];
        if (!output.is_wanted) continue;
        const Tensor value(const_cast<Node*>(&node(i)), k);
        values_.push_back({i, k, first[i], first[i] + 1 + k, costs_.bytes(value)});
        cuts_->edge(first[i], first[i] + 1 + k, capacity(value, entry.work.never));
        if (output.is_read || runs_once(node(i))) cuts_->edge(first[i] + 1 + k, sink, MinimumCut::unlimited);
      }
      if (entry.work.never) continue;
      for (const Tensor& operand : node(i).inputs())
        if (at(operand).is_wanted)
          cuts_->edge(first[graph_.number(operand)] + 1 + operand.output(), first[i], MinimumCut::unlimited);
    }
  }
  // Saved values where an addition's time counts so much.
  Cut cut(double weight, bool expensive_too) {
    for (const Again& again : again_) {
      const bool banned = again.is_never || (again.is_expensive && !expensive_too);
      cuts_->set_capacity(again.edge, banned ? MinimumCut::unlimited : static_cast<std::int64_t>(again.time * weight));
    }
    const std::vector<bool>& reached = cuts_->source_side(source, sink);
    Cut saved;
    for (std::uint32_t i = 0; i < values_.size(); ++i)
      if (reached[values_[i].from] && !reached[values_[i].to]) saved.push_back(i);
    return saved;
  }
  // A view is not saved, but for a small part of something larger.
  std::int64_t capacity(const Tensor& value, bool banned) const {
    const Node& from = *value.node();
    const std::int64_t own = costs_.bytes(value);
    if (!banned && is_view(from.op) && own >= costs_.bytes(from.input(0))) return MinimumCut::unlimited;
    return std::max<std::int64_t>(own, 1) * units;
  }

  std::int64_t bytes(const Cut& saved) const {
    std::int64_t sum = 0;
    for (const std::uint32_t i : saved) sum += values_[i].bytes;
    return sum;
  }
  std::vector<SavedValue> list(const Cut& saved) {
    std::vector<SavedValue> all;
    for (const std::uint32_t i : saved) {
      const Tensor value(graph_.nodes[values_[i].node].node(), values_[i].output);
      const Entry& entry = nodes_[values_[i].node];
      const char* const why = runs_once(*value.node()) ? "it is computed once only"
                              : entry.work.never && entry.is_exact && entry.work.expensive
                                  ? "a comparison depends on its bits"
                              : entry.work.never     ? "it can't be computed again"
                              : entry.work.expensive ? "it is expensive to compute again"
                                                     : "saving it takes less than computing it again";
      all.push_back({value, values_[i].bytes, why});
    }
    return all;
  }

  const Graph& graph_;
  Costs costs_;
  std::span<const double> times_;  // read by the constructor alone
  std::vector<Entry> nodes_;
  std::optional<MinimumCut> cuts_;
  std::vector<Again> again_;
  std::vector<Value> values_;
};

}  // namespace

ForwardReads forward_reads(std::span<const Tensor> derivative_outputs,
                           const std::function<Tensor(const Tensor&)>& forward) {
  ForwardReads reads;
  NodeNumbers met;
  std::vector<const Node*> nodes;  // of the derivative alone
  const auto visit = [&](const Tensor& value) {
    if (const Tensor known = forward(value); known.defined())
      reads.values.push_back(known);
    else if (met.set(value.node(), 0))
      nodes.push_back(value.node());
  };
  for (const Tensor& output : derivative_outputs) visit(output);
  for (std::size_t i = 0; i < nodes.size(); ++i) std::ranges::for_each(nodes[i]->inputs(), visit);
  std::ranges::sort(nodes, std::greater(), &Node::sequence);
  for (const Node* const node : nodes) {
    if (met.find(node) == 0 && !decides(*node)) continue;
    for (const Tensor& operand : node->inputs())
      if (const Tensor known = forward(operand); known.defined())
        reads.compared.push_back(known);
      else
        met.set(operand.node(), 1);
  }
  return reads;
}

std::vector<SavedValue> partition(const Graph& forward, const ForwardReads& reads, double budget) {
  return Partitioner(forward, reads, {}).saved(budget);
}

struct Partitions::State {
  Partitioner partitioner;
};
Partitions::Partitions(const Graph& forward, const ForwardReads& reads, std::span<const double> times,
                       bool bounds_chains)
    : state_(new State{Partitioner(forward, reads, times, bounds_chains)}) {}
Partitions::~Partitions() = default;
std::vector<SavedValue> Partitions::cheap() { return state_->partitioner.cheap(); }
std::vector<SavedValue> Partitions::at(double weight) { return state_->partitioner.at(weight); }

std::vector<double> times_of(const Graph& graph) {
  Costs costs(graph);
  std::vector<double> times;
  for (const Tensor& value : graph.nodes) times.push_back(costs.of(*value.node()).time);
  return times;
}
double time_of(const Graph& graph) {
  const std::vector<double> times = times_of(graph);
  return std::accumulate(times.begin(), times.end(), 0.0);
}

std::string to_text(const SavedValue& saved) {
  const Node& node = *saved.value.node();
  return concat_text(saved.bytes, " bytes: ", name_of(node), ", ", to_string(type_of(saved.value)),
                     node.loc.file ? ", at " + to_string(node.loc) : std::string(), ": ", saved.why);
}

}  // namespace weft
