#include "schedule/group.hpp"

#include <algorithm>
#include <map>

#include "base/fail.hpp"

namespace weft {

namespace {

constexpr std::size_t most_members = 96;

class Grouper {
 public:
  Grouper(const Graph& graph, Device device, const Providers& providers)
      : graph_(graph), device_(device), providers_(providers) {
    result_.nodes.resize(graph.nodes.size());
    find_broadcast();
    result_.layouts = choose_layouts(graph);
  }

  Grouping run() {
    for (const Tensor& value : graph_.nodes) place(*value.node());
    for (const Tensor& output : graph_.outputs) need_memory(memory_base(output));
    merge_siblings();
    finish();
    realize();
    return std::move(result_);
  }

 private:
  struct Reads {
    std::vector<int> groups;  // in which operands are computed, each once
    int deepest_other = 0;    // the deepest library step or assembled value
  };

  Placement& at(const Node& node) { return result_.nodes[node.index]; }
  Placement& at(const Tensor& value) { return result_.nodes[value.node()->index]; }
  Group& group(int id) { return result_.groups[static_cast<std::size_t>(result_.find(id))]; }

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
      case OpKind::assemble:
        if (result_.layouts[node.index].assembled) return place_external(node, Role::assembled);
        break;
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
    const bool repeated = broadcast_[node.index] && is_pointwise(node.op) && reads.groups.empty() && !is_slow(node) &&
                          operations(node) <= 3;
    if (repeated || (is_scalar(node) && operations(node) <= 24 && !joins_any(node, reads))) {
      inlined_operations_[node.index] = operations(node);
      placement.role = Role::inlined;
      return;
    }
    join_or_open(node, reads);
  }

  // Values that are read through an expansion alone, such as the scale of a norm: a cheap one is computed where it is
  // read, and no kernel waits for it.
  void find_broadcast() {
    broadcast_.assign(graph_.nodes.size(), true);
    for (const Tensor& output : graph_.outputs) broadcast_[output.node()->index] = false;
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i].node();
      if (node.op == Op::expand || (is_view(node.op) && broadcast_[i])) continue;
      for (const Tensor& operand : node.inputs()) broadcast_[operand.node()->index] = false;
    }
  }

  // A pointwise value of one element is recomputed where it is read, unless it can follow a reduction in its kernel.
  bool is_scalar(const Node& node) { return (is_pointwise(node.op)) && node.type.shape.element_count().same(Dim(1)); }
  bool joins_any(const Node& node, const Reads& reads) {
    return std::any_of(reads.groups.begin(), reads.groups.end(),
                       [&](int id) { return obstacle(id, node, reads).empty(); });
  }
  int operations(const Node& node) {
    int count = 1;
    for (const Tensor& operand : node.inputs()) {
      const Node* below = operand.node();
      for (int hops = 0; is_view(below->op) && hops < 64; ++hops) below = below->input(0).node();
      if (auto found = inlined_operations_.find(below->index); found != inlined_operations_.end())
        count += found->second;
    }
    return count;
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
    if (at(base).role != Role::inlined && reads_in_place(node, operand, base)) {
      at(base).realized = true;
      return;
    }
    // A reshape of a view is computed over the view's axes: its elements lie in the same order.
    const Tensor rows = memory_base(operand);
    need_memory(reads_in_place(node, operand, rows) ? rows : operand);
  }

  bool reads_in_place(const Node& node, const Tensor& operand, const Tensor& base) {
    IndexVector index;
    const Shape& shape = type_of(operand).shape;
    for (int i = 0; i < shape.rank(); ++i) index.push_back(dims::axis(i, shape[i]));
    IndexVector mapped = index;
    for (const Node* view = operand.node(); view != base.node(); view = view->input(0).node())
      mapped = map_through_view(*view, mapped);
    Dim offset = result_.memory_index(*base.node(), mapped);
    bool known = base.node()->op == Op::data && node.op == Op::matmul;  // a constant is packed once (schedule.cpp)
    std::vector<Dim> strides;
    for (int i = 0; i < shape.rank(); ++i) {
      auto [linear, stride] = dims::linear_in(offset, index[static_cast<std::size_t>(i)]);
      if (!linear) return false;
      known &= shape[i].is_constant();
      strides.push_back(stride);
    }
    return known || providers_.reads(node, device_, shape, strides);
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

  // True when every operand that the group computes is read at the very index at which the group computes it; by what
  // stands behind the rows, of columns, where `behind`.
  bool aligned(int id, const Tensor& value, const IndexVector& index, bool behind, int budget = 64) {
    const Node& node = *value.node();
    const Placement& placement = at(value);
    if (placement.role == Role::grouped) {
      if (result_.find(placement.group) != id) return true;
      if (placement.column != behind) return false;
      IndexVector own;
      if (!(behind ? column_index(group(id), node.type.shape, own) : member_index(group(id), node.type.shape, own)))
        return false;
      for (std::size_t i = 0; i < own.size(); ++i)
        if (!own[i].same(index[i])) return false;
      return true;
    }
    if (placement.role != Role::inlined) return true;
    if (budget == 0) return placement.depth < group(id).depth;
    if (is_view(node.op)) return aligned(id, node.input(0), map_through_view(node, index), behind, budget - 1);
    for (const Tensor& operand : node.inputs())
      if (!aligned(id, operand, index, behind, budget - 1)) return false;
    return true;
  }

  bool operands_aligned(int id, const Node& node, const IndexVector& index, bool behind) {
    if (node.op == Op::gather) {
      Reads table;
      collect(node.input(0), table);
      if (std::find(table.groups.begin(), table.groups.end(), id) != table.groups.end()) return false;
      auto lead = static_cast<std::ptrdiff_t>(type_of(node.input(1)).shape.rank());
      return aligned(id, node.input(1), IndexVector(index.begin(), index.begin() + lead), behind);
    }
    if (node.op == Op::random_bits) {
      for (const Tensor& operand : node.inputs())
        if (!aligned(id, operand, {}, behind)) return false;
      return true;
    }
    if (info(node.op).kind == OpKind::assemble) return false;  // it is asked for where its operand has no element
    for (const Tensor& operand : node.inputs())
      if (!aligned(id, operand, index, behind)) return false;
    return true;
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
    const bool behind = candidate.carries && reads_columns(node, id);
    if (behind) {
      if (is_reduce(node.op) || !column_index(candidate, node.type.shape, index))
        return "it reads the reduction of the kernel's rows to columns, which is complete behind them";
    } else if (is_reduce(node.op)) {
      const Shape& from = type_of(node.input(0)).shape;
      if (!member_index(candidate, from, index))
        return "it reduces " + shape_text(from) + ", the kernel walks " + shape_text(candidate.domain);
      bool inner[max_rank] = {};
      for (int i = 0; i < from.rank(); ++i) {
        if (!node.attributes<Reduce>().axes[i] || index[static_cast<std::size_t>(i)].is_constant()) continue;
        inner[index[static_cast<std::size_t>(i)].node()->number] = true;
      }
      if (candidate.reduces && !std::equal(inner, inner + max_rank, candidate.inner) &&
          (node.op == Op::argmax || !rows_and_columns(id, inner)))
        return "it reduces other axes than the kernel does";
      if (!fills_domain(candidate, from)) return "it reduces a value that the kernel has already reduced";
      Group whole = candidate;
      whole.reduces = true;
      std::copy(inner, inner + max_rank, whole.inner);
      if (!candidate.reduces && node.op == Op::argmax && is_serial(whole))
        return "its long reduction to few elements would make the kernel serial";
    } else if (!member_index(candidate, node.type.shape, index)) {
      return "it walks " + shape_text(node.type.shape) + ", the kernel " + shape_text(candidate.domain);
    } else if (is_serial(candidate) && fills_domain(candidate, node.type.shape)) {
      return "it would walk what the kernel's long reduction has walked, whose parts are then not yet joined";
    }
    if (!operands_aligned(id, node, index, behind)) return "it reads the kernel's value at another index";
    return {};
  }

  // Whether a kernel that reduces its inner axes and one that reduces `inner` can be one: one of them reduces rows, the
  // other what is left, and rows are long enough to fill vectors and short enough to be held while a unit walks many.
  bool rows_and_columns(int id, const bool* inner) {
    const Group& candidate = group(id);
    Dim row = 1, rows = 1;
    bool last_is_inner = false;
    for (int i = 0; i < candidate.domain.rank(); ++i) {
      const Dim size = candidate.domain[i];
      if (size.same(Dim(1))) continue;
      if (inner[i] == candidate.inner[i] || !size.is_constant()) return false;
      last_is_inner = candidate.inner[i];
    }
    const bool* of_rows = last_is_inner ? candidate.inner : inner;
    for (int i = 0; i < candidate.domain.rank(); ++i)
      (of_rows[i] ? row : rows) = (of_rows[i] ? row : rows) * candidate.domain[i];
    if (row.constant() < 64 || row.constant() > 16384 || rows.constant() < 128) return false;
    return last_is_inner || becomes_columns(id);
  }
  // Whether a kernel's reductions may be done beside those of rows: no position, and nothing that walks the rows again
  // reads their results.
  bool becomes_columns(int id) {
    const Group& candidate = group(id);
    if (candidate.carries) return false;
    const std::vector<std::uint32_t> behind = behind_reductions(id);
    return std::all_of(behind.begin(), behind.end(), [&](std::uint32_t member) {
      const Node& node = *graph_.nodes[member].node();
      return node.op != Op::argmax && (is_reduce(node.op) || !fills_domain(candidate, node.type.shape));
    });
  }
  // The group's reductions, and the members that read them.
  std::vector<std::uint32_t> behind_reductions(int id) {
    std::vector<std::uint32_t> members = group(id).members, behind;
    std::sort(members.begin(), members.end());
    const auto is_behind = [&](const Tensor& value) {
      return std::find(behind.begin(), behind.end(), value.node()->index) != behind.end();
    };
    for (const std::uint32_t member : members) {
      const Node& node = *graph_.nodes[member].node();
      if ((is_reduce(node.op) && !reduces_nothing(node)) || reads(node, id, is_behind)) behind.push_back(member);
    }
    return behind;
  }
  bool reads_columns(const Node& node, int id) {
    return reads(node, id, [&](const Tensor& value) { return at(value).column; });
  }
  // Whether a node reads, through views and inlined values, a value of the group that `is` says.
  template <class Is>
  bool reads(const Node& node, int id, const Is& is, int budget = 64) {
    return std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Tensor& operand) {
      const Placement& placement = at(operand);
      if (placement.role == Role::grouped) return result_.find(placement.group) == id && is(operand);
      return placement.role == Role::inlined && (budget == 0 || reads(*operand.node(), id, is, budget - 1));
    });
  }
  // The group's reductions, and what reads them, become those of columns, and `inner` the axes of its rows.
  void make_columns(int id, const bool* inner) {
    for (const std::uint32_t member : behind_reductions(id)) result_.nodes[member].column = true;
    std::copy(inner, inner + max_rank, group(id).inner);
    group(id).carries = true;
  }
  // Which of a kernel's axes are the last in memory order decides who is a row.
  static bool is_row(const Group& group, const bool* inner) {
    for (int i = group.domain.rank() - 1; i >= 0; --i)
      if (!group.domain[i].same(Dim(1))) return inner[i];
    return true;
  }

  static std::string shape_text(const Shape& shape) {
    std::string text = "[";
    for (int i = 0; i < shape.rank(); ++i) text += (i ? "," : "") + dims::to_string(shape[i]);
    return text + "]";
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
    return rows_and_columns(one, b.inner) && (is_row(a, a.inner) ? becomes_columns(other) : becomes_columns(one));
  }

  void merge(int a, int b) {
    if (group(a).members.size() < group(b).members.size()) std::swap(a, b);
    Group &into = group(a), &from = group(b);
    if (into.reduces && from.reduces && !std::equal(into.inner, into.inner + max_rank, from.inner)) {
      if (is_row(into, into.inner))
        make_columns(b, into.inner);
      else
        make_columns(a, from.inner);
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
    placement.column = target.carries && reads_columns(node, id);
    if (is_reduce(node.op)) {
      IndexVector index;
      const Shape& from = type_of(node.input(0)).shape;
      member_index(target, from, index);
      bool inner[max_rank] = {};
      for (int i = 0; i < from.rank(); ++i)
        if (node.attributes<Reduce>().axes[i] && !index[static_cast<std::size_t>(i)].is_constant())
          inner[index[static_cast<std::size_t>(i)].node()->number] = true;
      if (!target.reduces) {
        std::copy(inner, inner + max_rank, target.inner);
      } else if (!std::equal(inner, inner + max_rank, target.inner)) {
        if (is_row(target, inner))
          make_columns(id, inner);
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
        buckets[{result_.groups[id].depth, shape_text(result_.groups[id].domain)}].push_back(static_cast<int>(id));
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

  // Which grouped values get memory: those that somebody outside their kernel reads, unless they are cheap to compute
  // again there, or have one reader that can compute them instead.
  void realize() {
    constexpr int none = -1, several = -2;
    std::vector<int> reader(graph_.nodes.size(), none);
    auto add = [](int& seen, int more) {
      if (more == none) return;
      seen = seen == none || seen == more ? more : several;
    };
    std::vector<bool> stretched(graph_.nodes.size(), false);  // read more than once an element
    std::vector<bool> spread(graph_.nodes.size(), false);     // asked for at more elements than it has
    std::vector<bool> windowed(graph_.nodes.size(), false);   // read through overlapping windows
    std::vector<int> places(graph_.nodes.size(), 0);          // at how many shifted places an element is read
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i].node();
      const Placement& placement = at(node);
      int self = placement.role == Role::grouped   ? placement.group
                 : placement.role == Role::inlined ? reader[i]
                                                   : several;
      bool again = placement.role == Role::inlined ? stretched[i] || node.op == Op::expand : node.op == Op::gather;
      const bool is_part = info(node.op).kind == OpKind::assemble,
                 is_shifted = node.op == Op::slice || node.op == Op::windows;
      const int shifted = placement.role != Role::inlined ? is_part : is_shifted ? std::max(places[i], 1) : places[i];
      const bool spreads = is_part && (node.op == Op::concat || node.attributes<Pad>().interior > 0);
      for (const Tensor& operand : node.inputs()) {
        const std::uint32_t below = operand.node()->index;
        add(reader[below], self);
        if (again) stretched[below] = true;
        if (spreads) spread[below] = true;
        if (node.op == Op::windows || (placement.role == Role::inlined && windowed[i])) windowed[below] = true;
        places[below] = std::min(places[below] + shifted, enough);
      }
    }
    std::vector<Cheapness> cost(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = *graph_.nodes[i].node();
      Placement& placement = at(node);
      Cheapness& own = cost[i];
      if (placement.realized || placement.role == Role::leaf || placement.role == Role::external ||
          placement.role == Role::assembled) {
        own = {0, 1};
        continue;
      }
      for (const Tensor& operand : node.inputs()) {
        const Cheapness& below = cost[operand.node()->index];
        own.operations = std::min(own.operations + below.operations, enough);
        own.loads = std::min(own.loads + below.loads, enough);
        own.slow |= below.slow;
        own.reduces |= below.reduces;
        own.tests |= below.tests;
      }
      if (!is_view(node.op) && info(node.op).kind != OpKind::leaf) ++own.operations;
      if (node.op == Op::concat) own.operations += static_cast<int>(node.operand_count) - 1;
      own.slow |= is_slow(node);
      own.tests |= info(node.op).kind == OpKind::assemble;
      own.reduces |= is_reduce(node.op) && !reduces_nothing(node);
      if (placement.role != Role::grouped) continue;
      bool outside = reader[i] != none && reader[i] != placement.group;
      if (!outside) continue;
      bool cheap = !own.slow && own.operations <= 3 && own.loads <= 2;
      bool sole = reader[i] != several && !stretched[i] && own.operations <= 24 && own.loads <= 8 &&
                  own.operations * places[i] <= 48 && !(own.slow && spread[i]);
      if (own.reduces || (own.tests && windowed[i]) || !(cheap || sole)) {
        placement.realized = true;
        own = {0, 1};
      }
    }
  }
  // Counts beyond it say nothing more; a chain that reads itself twice at each step doubles them.
  static constexpr int enough = 1000;
  struct Cheapness {
    int operations = 0, loads = 0;
    bool slow = false;
    bool reduces = false;  // reads a reduction that only its own kernel holds
    bool tests = false;    // asks where an element is, as a pad does
  };
  static bool is_slow(const Node& node) {
    if (is_reduce(node.op) || node.op == Op::gather || node.op == Op::random_bits) return true;
    return info(node.op).cost > 8;  // more than a division or a square root
  }

  const Graph& graph_;
  Device device_;
  const Providers& providers_;
  Grouping result_;
  std::map<std::uint32_t, int> inlined_operations_;
  std::vector<bool> broadcast_;  // by node index
  int last_effect_ = 0;          // its depth: the first check that fails is the first of the program
};

}  // namespace

Grouping group_nodes(const Graph& graph, Device device, const Providers& providers) {
  return Grouper(graph, device, providers).run();
}

}  // namespace weft
