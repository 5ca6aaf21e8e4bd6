#include "schedule/columns.hpp"

#include <algorithm>

namespace weft {
namespace {

// Whether a node reads, through views and inlined values, a value of the group that `is` says.
template <class Is>
bool reads(const Grouping& grouping, const Node& node, int group, const Is& is, int budget = 64) {
  return std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Tensor& operand) {
    const Placement& placement = grouping[operand];
    if (placement.role == Role::grouped && grouping.find(placement.group) == group) return is(operand);
    return grouping.is_read_through(placement, group) &&
           (budget == 0 || reads(grouping, *operand.node(), group, is, budget - 1));
  });
}

// The group's reductions, and the members that read them.
std::vector<std::uint32_t> behind_reductions(const Graph& graph, const Grouping& grouping, int group) {
  std::vector<std::uint32_t> members = grouping.group(group).members, behind;
  std::sort(members.begin(), members.end());
  const auto is_behind = [&](const Tensor& value) {
    return std::binary_search(behind.begin(), behind.end(), graph.number(value));
  };
  for (const std::uint32_t member : members) {
    const Node& node = *graph.nodes[member].node();
    if ((is_reduce(node.op) && !reduces_nothing(node)) || reads(grouping, node, group, is_behind))
      behind.push_back(member);
  }
  return behind;
}

}  // namespace

bool rows_and_columns(const Graph& graph, const Grouping& grouping, int group, const bool* inner) {
  const Group& candidate = grouping.group(group);
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
  return last_is_inner || becomes_columns(graph, grouping, group);
}

bool becomes_columns(const Graph& graph, const Grouping& grouping, int group) {
  const Group& candidate = grouping.group(group);
  if (candidate.carries) return false;
  const std::vector<std::uint32_t> behind = behind_reductions(graph, grouping, group);
  return std::all_of(behind.begin(), behind.end(), [&](std::uint32_t member) {
    const Node& node = *graph.nodes[member].node();
    return node.op != Op::argmax && (is_reduce(node.op) || !fills_domain(candidate, node.type.shape));
  });
}

void make_columns(const Graph& graph, Grouping& grouping, int group, const bool* inner) {
  for (const std::uint32_t member : behind_reductions(graph, grouping, group)) grouping.nodes[member].column = true;
  std::copy(inner, inner + max_rank, grouping.group(group).inner);
  grouping.group(group).carries = true;
}

bool reads_columns(const Grouping& grouping, const Node& node, int group) {
  return reads(grouping, node, group, [&](const Tensor& value) { return grouping[value].column; });
}

bool is_row(const Group& group, const bool* inner) {
  for (int i = group.domain.rank() - 1; i >= 0; --i)
    if (!group.domain[i].same(Dim(1))) return inner[i];
  return true;
}

}  // namespace weft
