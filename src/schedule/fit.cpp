#include "schedule/fit.hpp"

#include <algorithm>

#include "ir/offload_mark.hpp"
#include "schedule/columns.hpp"

namespace weft {
namespace {

// The axes of a kernel that a reduction or what is cumulative runs over; the operand's elements lie at `index`.
struct ReducedAxes {
  ReducedAxes(const Node& node, const IndexVector& index) {
    for (std::size_t i = 0; i < index.size(); ++i) {
      const bool walked = is_reduce(node.op) ? node.attributes<Reduce>().axes[i] : node.attributes<Along>().axis == i;
      if (walked && !index[i].is_constant()) inner[index[i].node()->number] = true;
    }
  }
  bool inner[max_rank] = {};
};

template <class T>
void add_once(std::vector<T>& list, T item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

void collect(const Grouping& grouping, const Tensor& value, Reads& reads, int budget = 64) {
  const Placement& placement = grouping[value];
  if (placement.role == Role::inlined && budget > 0) {
    for (const Tensor& operand : value.node()->inputs()) collect(grouping, operand, reads, budget - 1);
    return;
  }
  if (placement.role == Role::grouped)
    add_once(reads.groups, grouping.find(placement.group));
  else
    reads.deepest_other = std::max(reads.deepest_other, placement.depth);
  add_once(reads.values, grouping.number(value));
  if (placement.copied && budget > 0)
    for (const Tensor& operand : value.node()->inputs()) collect(grouping, operand, reads, budget - 1);
}

// A grouping as it was before two kernels became one.
class Undo {
 public:
  Undo(const Grouping& grouping, int into, int from)
      : groups{{into, grouping.group(into)}, {from, grouping.group(from)}} {
    for (const auto& [id, group] : groups)
      for (const std::uint32_t member : group.members) placements_.emplace_back(member, grouping.nodes[member]);
  }
  void restore(Grouping& grouping) {
    for (auto& [id, group] : groups) grouping.groups[static_cast<std::size_t>(id)] = std::move(group);
    for (const auto& [member, placement] : placements_) grouping.nodes[member] = placement;
  }
  std::pair<int, Group> groups[2];

 private:
  std::vector<std::pair<std::uint32_t, Placement>> placements_;
};

}  // namespace

Reads Fit::reads_of(const Node& node) const {
  Reads reads;
  for (const Tensor& operand : node.inputs()) collect(grouping_, operand, reads);
  return reads;
}

std::string Fit::obstacle(int id, const Node& node, const Reads& reads) const {
  const Group& candidate = grouping_.group(id);
  if (candidate.members.size() >= most_members) return "the kernel is full";
  if (node.recomputation && node.recomputation != candidate.recomputation)
    return "it is computed again, at another time";
  if (borders_ && region_of(node) != candidate.region) return "it is beyond the border of a region";
  if (reads.deepest_other >= candidate.depth) return "it also waits for a library step";
  for (int other : reads.groups)
    if (other != id && grouping_.group(other).depth >= candidate.depth)
      return "it also waits for another kernel of the same depth or deeper";
  IndexVector index;
  const bool behind = candidate.carries && reads_columns(grouping_, node, id);
  if (behind) {
    if (walks(node) || !column_index(candidate, node.type.shape, index))
      return "it reads the reduction of the kernel's rows to columns, which is complete after them";
  } else if (walks(node)) {
    const Shape& from = type_of(node.input(0)).shape;
    if (!member_index(candidate, from, index))
      return "it reduces " + to_string(from) + ", the kernel walks " + to_string(candidate.domain);
    const ReducedAxes reduced(node, index);
    const bool* const inner = reduced.inner;
    if (candidate.reduces && !std::equal(inner, inner + max_rank, candidate.inner) &&
        (node.op == Op::argmax || candidate.scans || is_cumulative(node.op) ||
         !rows_and_columns(graph_, grouping_, id, inner)))
      return "it reduces other axes than the kernel does";
    if (!fills_domain(candidate, from)) return "it reduces a value that the kernel has already reduced";
    Group whole = candidate;
    whole.reduces = true;
    std::copy(inner, inner + max_rank, whole.inner);
    whole.scans = false;
    if ((candidate.scans || is_cumulative(node.op)) && (candidate.carries || (is_serial(whole) && candidate.reduces)))
      return "a row can't be walked in order and be cut";
  } else if (!member_index(candidate, node.type.shape, index)) {
    return "it walks " + to_string(node.type.shape) + ", the kernel " + to_string(candidate.domain);
  } else if (on_host_ && !reads.beside && is_serial(candidate) && fills_domain(candidate, node.type.shape)) {
    return "it would walk what the kernel's long reduction has walked, whose parts are then not yet joined";
  }
  if (!operands_aligned(grouping_, id, node, index, behind)) return "it reads the kernel's value at another index";
  return {};
}

void Fit::join(int id, const Node& node, const Reads& reads) {
  Group& target = grouping_.group(id);
  Placement& placement = grouping_.nodes[graph_.number(node)];
  placement.column = target.carries && reads_columns(grouping_, node, id);
  if (walks(node)) {
    IndexVector index;
    member_index(target, type_of(node.input(0)).shape, index);
    const ReducedAxes reduced(node, index);
    const bool* const inner = reduced.inner;
    if (!target.reduces) {
      std::copy(inner, inner + max_rank, target.inner);
    } else if (!std::equal(inner, inner + max_rank, target.inner)) {
      if (is_row(target, inner))
        make_columns(graph_, grouping_, id, inner);
      else
        placement.column = true;
      target.carries = true;
    }
    target.reduces = true;
    target.scans |= is_cumulative(node.op);
  }
  target.members.push_back(graph_.number(node));
  placement.role = Role::grouped;
  placement.group = id;
  placement.depth = target.depth;
  for (const std::uint32_t value : reads.values) {
    const Placement& read = grouping_.nodes[value];
    if (read.role != Role::grouped || grouping_.find(read.group) != id) add_once(target.reads, value);
  }
}

std::string Fit::absorb(int into, int from) {
  if (!grouping_.group(into).domain.same(grouping_.group(from).domain))
    return "they walk " + to_string(grouping_.group(into).domain) + " and " + to_string(grouping_.group(from).domain);
  if (grouping_.group(into).members.size() + grouping_.group(from).members.size() > most_members)
    return "the kernel is full";
  const auto computed_there = [&](std::uint32_t value) {
    const Placement& read = grouping_.nodes[value];
    return read.role == Role::grouped && grouping_.find(read.group) == into;
  };
  const std::vector<std::uint32_t>& reads = grouping_.group(from).reads;
  if (grouping_.group(into).recomputation != grouping_.group(from).recomputation &&
      std::none_of(reads.begin(), reads.end(), computed_there))
    return "the one is computed again, at another time";
  Undo undo(grouping_, into, from);
  std::vector<std::uint32_t> members = std::move(grouping_.group(from).members);
  std::sort(members.begin(), members.end());
  Group& target = grouping_.group(into);
  target.depth = std::max(target.depth, grouping_.group(from).depth);
  std::vector<std::uint32_t> behind;  // members that read what `into` computes, and what reads those
  for (const std::uint32_t member : members) {
    const Node& node = *graph_.nodes[member].node();
    Reads reads;  // no depths: its place is known to be right
    reads.values = reads_of(node).values;
    reads.beside = std::none_of(reads.values.begin(), reads.values.end(), [&](std::uint32_t value) {
      return std::binary_search(behind.begin(), behind.end(), value) ||
             (computed_there(value) && !std::binary_search(members.begin(), members.end(), value));
    });
    if (!reads.beside) behind.push_back(member);
    if (std::string why = obstacle(into, node, reads); !why.empty()) {
      undo.restore(grouping_);
      return why;
    }
    join(into, node, reads);
  }
  for (const std::uint32_t value : undo.groups[1].second.reads) add_once(target.reads, value);
  std::erase_if(target.reads, computed_there);
  grouping_.groups[static_cast<std::size_t>(from)].members.clear();
  grouping_.groups[static_cast<std::size_t>(from)].merged_into = into;
  return {};
}

}  // namespace weft
