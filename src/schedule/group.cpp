#include "schedule/group.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/offload_mark.hpp"
#include "schedule/late_gathers.hpp"
#include "schedule/merge.hpp"
#include "schedule/realize.hpp"

namespace weft {

namespace {

class Grouper {
 public:
  Grouper(const Graph& graph, Device device, const Providers& providers, bool fuses, bool borders)
      : graph_(graph),
        device_(device),
        providers_(providers),
        fuses_(fuses),
        borders_(borders),
        fit_(graph, result_, device, borders),
        score_(graph, device),
        broadcast_(read_through_expansions(graph)),
        is_output_(graph.nodes.size(), false) {
    for (const Tensor& output : graph.outputs) is_output_[graph.number(output)] = true;
    for (const Tensor& value : graph.nodes)
      for (const Tensor& operand : value.node()->inputs())
        if (const std::uint32_t again = operand.node()->recomputation; again && again != value.node()->recomputation)
          for (const Tensor& each : value.node()->inputs()) read_beside_[again].push_back(graph.number(each));
    result_.graph = &graph;
    result_.nodes.resize(graph.nodes.size());
    result_.layouts = choose_layouts(graph, providers, device);
  }

  Grouping run() {
    for (const Tensor& value : graph_.nodes) place(*value.node());
    for (const Tensor& output : graph_.outputs) need_memory(memory_base(output));
    if (fuses_) merge_groups(graph_, result_, fit_, score_);
    finish();
    realize(graph_, result_, device_, borders_);
    return std::move(result_);
  }

 private:
  Placement& at(const Node& node) { return result_.nodes[graph_.number(node)]; }
  Placement& at(const Tensor& value) { return result_.nodes[graph_.number(value)]; }
  Group& group(int id) { return result_.group(id); }

  void place(const Node& node) {
    Placement& placement = at(node);
    for (const Tensor& operand : node.inputs()) placement.depth = std::max(placement.depth, at(operand).depth);
    if (is_further_result(node)) {
      placement.role = Role::external;
      placement.realized = true;
      return;
    }
    switch (info(node.op).kind) {
      case OpKind::leaf:
        placement.role = node.op == Op::input || node.op == Op::data ? Role::leaf : Role::inlined;
        return;
      case OpKind::view:
      case OpKind::identity: placement.role = Role::inlined; return;
      case OpKind::contraction:
      case OpKind::convolution:
      case OpKind::order:
      case OpKind::factorization:
      case OpKind::collective:
      case OpKind::region:  // loops, and calls that the passes left to a provider
      case OpKind::effect: return place_external(node, Role::external);
      case OpKind::assemble:
        if (result_.layouts[graph_.number(node)].assembled) return place_external(node, Role::assembled);
        break;
      case OpKind::index:
        if (node.op != Op::gather) return place_external(node, Role::external);
        break;
      default: break;
    }
    if (reduces_nothing(node)) {
      placement.role = Role::inlined;
      return;
    }
    if (is_copied_part(node)) {
      open(node, node.type.shape, "it is read long after the rest of its gather");
      placement.realized = true;
      return;
    }
    Reads reads = fit_.reads_of(node);
    const int operations = operations_where_read(result_, node);
    const bool repeated = broadcast_[graph_.number(node)] && is_pointwise(node.op) && reads.groups.empty() &&
                          !is_slow(node) && operations <= 3;
    const bool once = score_.inlines_in_each_thread() && (is_slow(node) || is_output_[graph_.number(node)]);
    if (repeated || (is_scalar(node) && !once && operations <= 24 && !joins_any(node, reads))) {
      placement.operations = operations;
      placement.role = Role::inlined;
      return;
    }
    join_or_open(node, reads);
  }

  // A pointwise value of one element is recomputed where it is read, unless it can follow a reduction in its kernel. On
  // a device each thread would compute it: what is slow has a kernel, which is that of the result that it is computed
  // from, so that nobody reads a counter of steps but who writes the next.
  bool is_scalar(const Node& node) { return (is_pointwise(node.op)) && node.type.shape.element_count().same(Dim(1)); }
  bool joins_any(const Node& node, const Reads& reads) {
    return std::any_of(reads.groups.begin(), reads.groups.end(),
                       [&](int id) { return fit_.obstacle(id, node, reads).empty(); });
  }

  // What is computed again waits for what its readers read besides, as far as it is placed by now: for the gradient
  // that reaches it.
  int depth_before(const Node& node) const {
    int depth = 0;
    if (node.recomputation)
      if (const auto found = read_beside_.find(node.recomputation); found != read_beside_.end())
        for (const std::uint32_t each : found->second) depth = std::max(depth, result_.nodes[each].depth);
    return depth;
  }

  void place_external(const Node& node, Role role) {
    int depth = depth_before(node);
    for (const Tensor& operand : node.inputs()) {
      if (role == Role::external) depth = std::max(depth, at(operand_memory(node, operand)).depth);
      depth = std::max(depth, at(operand).depth);
    }
    Placement& placement = at(node);
    placement.role = role;
    placement.realized = true;
    placement.depth = depth + 1;
    if (is_effect(node)) placement.depth = last_effect_ = std::max(placement.depth, last_effect_);
    if (is_collective(node)) placement.depth = last_collective_ = std::max(placement.depth, last_collective_);
  }

  // Library steps read memory: through views where those are strides (matmul), else a copy is computed; matrices that
  // a gather chooses where they lie in its table. Returns the value that they read the memory of, of two the later.
  Tensor operand_memory(const Node& node, const Tensor& operand) {
    if (const Node* gather = fuses_ ? chosen_matrices(result_, providers_, device_, node, operand) : nullptr) {
      const Tensor table = gather->input(0), index = gather->input(1);
      at(*gather).chosen = true;
      at(table).realized = true;
      need_memory(index);
      return at(index).depth > at(table).depth ? index : table;
    }
    Tensor base = operand;
    while (is_view(base.node()->op) && at(base).role == Role::inlined) base = base.node()->input(0);
    const auto in_place = [&](const Tensor& below) {
      return reads_in_place(result_, providers_, device_, node, operand, below);
    };
    if (at(base).role != Role::inlined && in_place(base)) {
      at(base).realized = true;
      return base;
    }
    // A reshape of a view is computed over the view's axes: its elements lie in the same order. Over its own axes each
    // index would be taken apart again, so it is also what is copied where the operand is a permutation of it; where it
    // is an expansion, what is repeated is copied once.
    Tensor below = operand;
    bool expands = false;
    for (; below.node()->op == Op::permute || below.node()->op == Op::expand; below = below.node()->input(0))
      expands |= below.node()->op == Op::expand;
    if (!expands && below.node()->op != Op::reshape) below = operand;
    for (const Tensor& whole : {below, operand})
      if (const Tensor rows = memory_base(whole); in_place(rows)) {
        need_memory(rows);
        return rows;
      }
    need_memory(operand);
    return operand;
  }

  // Gives a value memory of its own; one that is inlined so far gets a group that computes it.
  void need_memory(const Tensor& value) {
    Placement& placement = at(value);
    if (placement.role == Role::inlined) {
      open(*value.node(), value.node()->type.shape, "its value is needed in memory");
      placement.copied = true;
    }
    placement.realized = true;
  }

  // What is computed, parts that are joined, say, and has been copied for a library step is read from the copy where
  // that is its elements in order, by whoever comes after the copy: the depth of that copy, or 0.
  int depth_of_copy(const Tensor& operand) {
    Tensor base = operand;
    while (is_view(base.node()->op) && at(base).role == Role::inlined) base = base.node()->input(0);
    if (!at(base).copied) return 0;
    const int depth = at(base).depth;
    while (is_view(base.node()->op)) base = base.node()->input(0);
    return at(base).role == Role::grouped && !at(base).realized ? depth : 0;
  }

  void open(const Node& node, const Shape& domain, std::string why) {
    Placement& placement = at(node);
    Group fresh;
    fresh.domain = domain;
    if (is_reduce(node.op) && !reduces_nothing(node)) {
      fresh.reduces = true;
      for (int i = 0; i < max_rank; ++i) fresh.inner[i] = node.attributes<Reduce>().axes[i];
    }
    if (is_cumulative(node.op) && !reduces_nothing(node)) {
      fresh.reduces = fresh.scans = true;
      fresh.inner[node.attributes<Along>().axis] = true;
    }
    fresh.members.push_back(graph_.number(node));
    fresh.recomputation = node.recomputation;
    fresh.region = region_of(node);
    fresh.reads = fit_.reads_of(node).values;
    fresh.depth = depth_before(node);
    for (const Tensor& operand : node.inputs())
      fresh.depth = std::max({fresh.depth, at(operand).depth, fresh.reduces ? depth_of_copy(operand) : 0});
    fresh.depth += 1;
    placement.role = Role::grouped;
    placement.realized = !fuses_;
    placement.group = static_cast<int>(result_.groups.size());
    placement.depth = fresh.depth;
    fresh.why = std::move(why);
    result_.groups.push_back(std::move(fresh));
  }

  // The best of the kernels that compute its operands, if one kernel is worth more than two.
  void join_or_open(const Node& node, Reads& reads) {
    const Shape& walked = is_reduce(node.op) ? type_of(node.input(0)).shape : node.type.shape;
    if (!fuses_) return open(node, walked, "nothing is fused");
    std::sort(reads.groups.begin(), reads.groups.end(),
              [&](int a, int b) { return group(a).depth != group(b).depth ? group(a).depth > group(b).depth : a > b; });
    merge_deepest(node, reads);
    std::string why;
    for (const int id : reads.groups) {
      why = fit_.obstacle(id, node, reads);
      if (why.empty()) return fit_.join(id, node, reads);
    }
    if (reads.groups.empty())
      why = reads.deepest_other ? "it reads a library step's result" : "it reads arguments only";
    else
      why += "; " + std::to_string(static_cast<std::int64_t>(bytes_of(reads, reads.groups.back()))) +
             " bytes are read again";
    open(node, walked, std::move(why));
  }

  // Bytes of the values among those that a group computes.
  double bytes_of(const Reads& reads, int id) const {
    double bytes = 0;
    for (const std::uint32_t value : reads.values) {
      const Placement& placement = result_.nodes[value];
      if (placement.role == Role::grouped && result_.find(placement.group) == id)
        bytes += score_.bytes(*graph_.nodes[value].node());
    }
    return bytes;
  }

  // Operands from two kernels of equal depth that can be one, over whose space the node can be computed.
  void merge_deepest(const Node& node, Reads& reads) {
    const Shape& walked = is_reduce(node.op) ? type_of(node.input(0)).shape : node.type.shape;
    while (reads.groups.size() >= 2) {
      const int a = reads.groups[0], b = reads.groups[1];
      IndexVector index;
      if (group(a).depth != group(b).depth || !member_index(group(a), walked, index)) return;
      if (merit(graph_, score_, group(a), group(b), bytes_of(reads, b)) <= 0 || !fit_.absorb(a, b).empty()) return;
      reads.groups.erase(reads.groups.begin() + 1);
    }
  }

  void finish() {
    for (Group& g : result_.groups) {
      if (g.merged_into < 0) result_.note(*graph_.nodes[g.members.front()].node(), "starts a kernel: " + g.why);
      std::sort(g.members.begin(), g.members.end());
    }
    for (Placement& placement : result_.nodes)
      if (placement.role == Role::grouped) {
        placement.group = result_.find(placement.group);
        placement.depth = result_.groups[static_cast<std::size_t>(placement.group)].depth;
      }
  }

  const Graph& graph_;
  Device device_;
  const Providers& providers_;
  const bool fuses_, borders_;
  Grouping result_;
  Fit fit_;
  const Score score_;
  const std::vector<bool> broadcast_;
  std::vector<bool> is_output_;                                                // by node
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> read_beside_;  // by recomputation: by its readers
  int last_effect_ = 0;      // its depth: the first check that fails is the first of the program
  int last_collective_ = 0;  // likewise: processes whose kernels differ have their collectives in one order
};

}  // namespace

Grouping group_nodes(const Graph& graph, Device device, const Providers& providers, bool fuses, bool borders) {
  return Grouper(graph, device, providers, fuses, borders).run();
}

}  // namespace weft
