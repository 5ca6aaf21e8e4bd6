#include "schedule/group.hpp"

#include <algorithm>
#include <map>

#include "schedule/columns.hpp"
#include "schedule/realize.hpp"

namespace weft {

namespace {

constexpr std::size_t most_members = 96;

// The axes of a kernel that a reduction runs over, of which the operand's elements lie at `index`.
struct ReducedAxes {
  ReducedAxes(const Node& node, const IndexVector& index) {
    for (std::size_t i = 0; i < index.size(); ++i)
      if (node.attributes<Reduce>().axes[i] && !index[i].is_constant()) inner[index[i].node()->number] = true;
  }
  bool inner[max_rank] = {};
};

class Grouper {
 public:
  Grouper(const Graph& graph, Device device, const Providers& providers)
      : graph_(graph), device_(device), providers_(providers), broadcast_(read_through_expansions(graph)) {
    result_.nodes.resize(graph.nodes.size());
    result_.layouts = choose_layouts(graph);
  }

  Grouping run() {
    for (const Tensor& value : graph_.nodes) place(*value.node());
    for (const Tensor& output : graph_.outputs) need_memory(memory_base(output));
    merge_siblings();
    finish();
    realize(graph_, result_, device_);
    return std::move(result_);
  }

 private:
  struct Reads {
    std::vector<int> groups;  // in which operands are computed, each once
    int deepest_other = 0;    // the deepest library step or assembled value
  };

  Placement& at(const Node& node) { return result_.nodes[node.index]; }
  Placement& at(const Tensor& value) { return result_.nodes[value.node()->index]; }
  Group& group(int id) { return result_.group(id); }

  void place(const Node& node) {
    Placement& placement = at(node);
    for (const Tensor& operand : node.inputs()) placement.depth = std::max(placement.depth, at(operand).depth);
    switch (info(node.op).kind) {
      case OpKind::leaf:
        placement.role = node.op == Op::input || node.op == Op::data ? Role::leaf : Role::inlined;
        return;
      case OpKind::view:
      case OpKind::identity: placement.role = Role::inlined; return;
      case OpKind::contraction:
      case OpKind::convolution:
      case OpKind::effect: return place_external(node, Role::external);
      case OpKind::assemble: return place_external(node, Role::assembled);
      case OpKind::index:
        if (node.op == Op::scatter_add) return place_external(node, Role::external);
        break;
      default: break;
    }
    if (node.op == Op::call) return place_external(node, Role::external);  // the passes left it to a provider
    if (reduces_nothing(node)) {
      placement.role = Role::inlined;
      return;
    }
    Reads reads;
    for (const Tensor& operand : node.inputs()) collect(operand, reads);
    const int operations = operations_where_read(result_, node);
    const bool repeated =
        broadcast_[node.index] && is_pointwise(node.op) && reads.groups.empty() && !is_slow(node) && operations <= 3;
    if (repeated || (is_scalar(node) && operations <= 24 && !joins_any(node, reads))) {
      placement.operations = operations;
      placement.role = Role::inlined;
      return;
    }
    join_or_open(node, reads);
  }

  // A pointwise value of one element is recomputed where it is read, unless it can follow a reduction in its kernel.
  bool is_scalar(const Node& node) { return (is_pointwise(node.op)) && node.type.shape.element_count().same(Dim(1)); }
  bool joins_any(const Node& node, const Reads& reads) {
    return std::any_of(reads.groups.begin(), reads.groups.end(),
                       [&](int id) { return obstacle(id, node, reads).empty(); });
  }

  void place_external(const Node& node, Role role) {
    for (const Tensor& operand : node.inputs())
      if (role == Role::external) need_operand_memory(node, operand);
    Placement& placement = at(node);
    placement.role = role;
    placement.realized = true;
    placement.depth = 0;
    for (const Tensor& operand : node.inputs()) placement.depth = std::max(placement.depth, at(operand).depth);
    ++placement.depth;
    if (info(node.op).kind == OpKind::effect) placement.depth = last_effect_ = std::max(placement.depth, last_effect_);
  }

  // Library steps read memory: through views where those are strides (matmul), else a copy is computed.
  void need_operand_memory(const Node& node, const Tensor& operand) {
    Tensor base = operand;
    while (is_view(base.node()->op) && at(base).role == Role::inlined) base = base.node()->input(0);
    const auto in_place = [&](const Tensor& below) {
      return reads_in_place(result_, providers_, device_, node, operand, below);
    };
    if (at(base).role != Role::inlined && in_place(base)) {
      at(base).realized = true;
      return;
    }
    // A reshape of a view is computed over the view's axes: its elements lie in the same order.
    const Tensor rows = memory_base(operand);
    need_memory(in_place(rows) ? rows : operand);
  }

  // Gives a value memory of its own; one that is inlined so far gets a group that computes it.
  void need_memory(const Tensor& value) {
    Placement& placement = at(value);
    if (placement.role == Role::inlined) open(*value.node(), value.node()->type.shape, "its value is needed in memory");
    at(value).realized = true;
  }

  void open(const Node& node, const Shape& domain, const char* reason) {
    Placement& placement = at(node);
    Group fresh;
    fresh.domain = domain;
    if (is_reduce(node.op) && !reduces_nothing(node)) {
      fresh.reduces = true;
      for (int i = 0; i < max_rank; ++i) fresh.inner[i] = node.attributes<Reduce>().axes[i];
    }
    fresh.members.push_back(node.index);
    for (const Tensor& operand : node.inputs()) fresh.depth = std::max(fresh.depth, at(operand).depth);
    fresh.depth += 1;
    placement.role = Role::grouped;
    placement.group = static_cast<int>(result_.groups.size());
    placement.depth = fresh.depth;
    result_.groups.push_back(std::move(fresh));
    if (reason) note(node, reason);
  }

  void note(const Node& node, const std::string& reason) { result_.note(node, "starts a kernel: " + reason); }

  // What a node reads through views and inlined values.
  void collect(const Tensor& value, Reads& reads, int budget = 64) {
    const Placement& placement = at(value);
    if (placement.role == Role::grouped) {
      int id = result_.find(placement.group);
      if (std::find(reads.groups.begin(), reads.groups.end(), id) == reads.groups.end()) reads.groups.push_back(id);
    } else if (placement.role == Role::inlined) {
      if (budget == 0)
        reads.deepest_other = std::max(reads.deepest_other, placement.depth);
      else
        for (const Tensor& operand : value.node()->inputs()) collect(operand, reads, budget - 1);
    } else {
      reads.deepest_other = std::max(reads.deepest_other, placement.depth);
    }
  }

  // Empty when the node can join; else why not.
  std::string obstacle(int id, const Node& node, const Reads& reads) {
    Group& candidate = group(id);
    if (candidate.members.size() >= most_members) return "the kernel is full";
    if (reads.deepest_other >= candidate.depth) return "it also waits for a library step";
    for (int other : reads.groups)
      if (other != id && group(other).depth >= candidate.depth)
        return "it also waits for another kernel of the same depth or deeper";
    IndexVector index;
    const bool behind = candidate.carries && reads_columns(result_, node, id);
    if (behind) {
      if (is_reduce(node.op) || !column_index(candidate, node.type.shape, index))
        return "it reads the reduction of the kernel's rows to columns, which is complete behind them";
    } else if (is_reduce(node.op)) {
      const Shape& from = type_of(node.input(0)).shape;
      if (!member_index(candidate, from, index))
        return "it reduces " + to_string(from) + ", the kernel walks " + to_string(candidate.domain);
      const ReducedAxes reduced(node, index);
      const bool* const inner = reduced.inner;
      if (candidate.reduces && !std::equal(inner, inner + max_rank, candidate.inner) &&
          (node.op == Op::argmax || !rows_and_columns(graph_, result_, id, inner)))
        return "it reduces other axes than the kernel does";
      if (!fills_domain(candidate, from)) return "it reduces a value that the kernel has already reduced";
      Group whole = candidate;
      whole.reduces = true;
      std::copy(inner, inner + max_rank, whole.inner);
      if (!candidate.reduces && node.op == Op::argmax && is_serial(whole))
        return "its long reduction to few elements would make the kernel serial";
    } else if (!member_index(candidate, node.type.shape, index)) {
      return "it walks " + to_string(node.type.shape) + ", the kernel " + to_string(candidate.domain);
    } else if (is_serial(candidate) && fills_domain(candidate, node.type.shape)) {
      return "it would walk what the kernel's long reduction has walked, whose parts are then not yet joined";
    }
    if (!operands_aligned(result_, id, node, index, behind)) return "it reads the kernel's value at another index";
    return {};
  }

  void join_or_open(const Node& node, Reads& reads) {
    std::sort(reads.groups.begin(), reads.groups.end(),
              [&](int a, int b) { return group(a).depth != group(b).depth ? group(a).depth > group(b).depth : a > b; });
    merge_deepest(node, reads);
    std::string why;
    for (int id : reads.groups) {
      why = obstacle(id, node, reads);
      if (why.empty()) return join(id, node);
    }
    open(node, is_reduce(node.op) ? type_of(node.input(0)).shape : node.type.shape, nullptr);
    if (!reads.groups.empty())
      note(node, why);
    else
      note(node, reads.deepest_other ? "it reads a library step's result" : "it reads arguments only");
  }

  // Operands from two kernels of equal depth that walk the same space: one kernel computes both.
  void merge_deepest(const Node& node, Reads& reads) {
    while (reads.groups.size() >= 2) {
      int a = reads.groups[0], b = reads.groups[1];
      if (group(a).depth != group(b).depth || !same_space(a, b)) return;
      if (group(a).members.size() + group(b).members.size() >= most_members) return;
      Shape walked = is_reduce(node.op) ? type_of(node.input(0)).shape : node.type.shape;
      IndexVector index;
      if (!member_index(group(a), walked, index)) return;
      merge(a, b);
      reads.groups.erase(reads.groups.begin() + 1);
      reads.groups[0] = result_.find(a);
    }
  }

  bool same_space(int one, int other) {
    const Group &a = group(one), &b = group(other);
    if (!a.domain.same(b.domain)) return false;
    if (!a.reduces || !b.reduces || std::equal(a.inner, a.inner + max_rank, b.inner)) return true;
    return rows_and_columns(graph_, result_, one, b.inner) &&
           becomes_columns(graph_, result_, is_row(a, a.inner) ? other : one);
  }

  void merge(int a, int b) {
    if (group(a).members.size() < group(b).members.size()) std::swap(a, b);
    Group &into = group(a), &from = group(b);
    if (into.reduces && from.reduces && !std::equal(into.inner, into.inner + max_rank, from.inner)) {
      const bool rows = is_row(into, into.inner);
      make_columns(graph_, result_, rows ? b : a, rows ? into.inner : from.inner);
    }
    into.carries |= from.carries;
    into.members.insert(into.members.end(), from.members.begin(), from.members.end());
    if (from.reduces && !into.reduces) {
      into.reduces = true;
      std::copy(from.inner, from.inner + max_rank, into.inner);
    }
    from.members.clear();
    from.merged_into = result_.find(a);
  }

  void join(int id, const Node& node) {
    Group& target = group(id);
    Placement& placement = at(node);
    placement.column = target.carries && reads_columns(result_, node, id);
    if (is_reduce(node.op)) {
      IndexVector index;
      const Shape& from = type_of(node.input(0)).shape;
      member_index(target, from, index);
      const ReducedAxes reduced(node, index);
      const bool* const inner = reduced.inner;
      if (!target.reduces) {
        std::copy(inner, inner + max_rank, target.inner);
      } else if (!std::equal(inner, inner + max_rank, target.inner)) {
        if (is_row(target, inner))
          make_columns(graph_, result_, id, inner);
        else
          placement.column = true;
        target.carries = true;
      }
      target.reduces = true;
    }
    target.members.push_back(node.index);
    placement.role = Role::grouped;
    placement.group = id;
    placement.depth = target.depth;
  }

  // Horizontal fusion: kernels of one depth over one space that read a common value.
  void merge_siblings() {
    std::map<std::pair<int, std::string>, std::vector<int>> buckets;
    for (std::size_t id = 0; id < result_.groups.size(); ++id)
      if (result_.groups[id].merged_into < 0)
        buckets[{result_.groups[id].depth, to_string(result_.groups[id].domain)}].push_back(static_cast<int>(id));
    for (auto& [key, ids] : buckets) {
      if (ids.size() < 2) continue;
      std::map<std::uint32_t, int> reader;  // a value in memory -> the first kernel that reads it
      for (int id : ids) {
        std::vector<std::uint32_t> reads;
        for (std::uint32_t member : group(id).members)
          for (const Tensor& operand : graph_.nodes[member].node()->inputs())
            collect_memory(operand, result_.find(id), reads);
        for (std::uint32_t value : reads) {
          auto [found, fresh] = reader.emplace(value, id);
          if (fresh) continue;
          int other = result_.find(found->second), self = result_.find(id);
          if (other != self && same_space(other, self) && !walks_again(other, self) && !walks_again(self, other) &&
              group(other).members.size() + group(self).members.size() < most_members)
            merge(other, self);
        }
      }
    }
  }
  // A long reduction to few elements is done in two stages, each walks memory once.
  bool walks_again(int reduced, int other) {
    return is_serial(group(reduced)) && group(other).reduces != group(reduced).reduces;
  }

  void collect_memory(const Tensor& value, int self, std::vector<std::uint32_t>& reads, int budget = 16) {
    const Placement& placement = at(value);
    if (placement.role == Role::grouped && result_.find(placement.group) == self) return;
    if (placement.role == Role::inlined) {
      if (budget > 0)
        for (const Tensor& operand : value.node()->inputs()) collect_memory(operand, self, reads, budget - 1);
      return;
    }
    if (!type_of(value).shape.element_count().same(Dim(1))) reads.push_back(value.node()->index);
  }

  void finish() {
    for (Group& g : result_.groups) std::sort(g.members.begin(), g.members.end());
    for (Placement& placement : result_.nodes)
      if (placement.role == Role::grouped) placement.group = result_.find(placement.group);
  }

  const Graph& graph_;
  Device device_;
  const Providers& providers_;
  Grouping result_;
  const std::vector<bool> broadcast_;
  int last_effect_ = 0;  // its depth: the first check that fails is the first of the program
};

}  // namespace

Grouping group_nodes(const Graph& graph, Device device, const Providers& providers) {
  return Grouper(graph, device, providers).run();
}

}  // namespace weft
