#include "schedule/realize.hpp"

#include <algorithm>

namespace weft {
namespace {

// Counts beyond it say nothing more; a chain that reads itself twice at each step doubles them.
constexpr int enough = 1000;

struct Cheapness {
  int operations = 0, loads = 0;
  bool slow = false;
  bool reduces = false;  // reads a reduction that only its own kernel holds
};
constexpr Cheapness from_memory{0, 1, false, false};

// Who reads a value.
struct Readers {
  static constexpr int none = -1, several = -2;
  std::vector<int> group;       // by node: the only group that does
  std::vector<bool> stretched;  // by node: whether an element is read more than once
};

Readers find_readers(const Graph& graph, const Grouping& grouping) {
  Readers readers{std::vector<int>(graph.nodes.size(), Readers::none), std::vector<bool>(graph.nodes.size(), false)};
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i].node();
    const Placement& placement = grouping.nodes[i];
    const bool inlined = placement.role == Role::inlined;
    const int self = placement.role == Role::grouped ? placement.group : inlined ? readers.group[i] : Readers::several;
    const bool again = inlined ? readers.stretched[i] || node.op == Op::expand : node.op == Op::gather;
    for (const Tensor& operand : node.inputs()) {
      int& seen = readers.group[operand.node()->index];
      if (self != Readers::none) seen = seen == Readers::none || seen == self ? self : Readers::several;
      if (again) readers.stretched[operand.node()->index] = true;
    }
  }
  return readers;
}

}  // namespace

std::vector<bool> read_through_expansions(const Graph& graph) {
  std::vector<bool> broadcast(graph.nodes.size(), true);
  for (const Tensor& output : graph.outputs) broadcast[output.node()->index] = false;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i].node();
    if (node.op == Op::expand || (is_view(node.op) && broadcast[i])) continue;
    for (const Tensor& operand : node.inputs()) broadcast[operand.node()->index] = false;
  }
  return broadcast;
}

int operations_where_read(const Grouping& grouping, const Node& node) {
  int count = 1;
  for (const Tensor& operand : node.inputs()) {
    const Node* below = operand.node();
    for (int hops = 0; is_view(below->op) && hops < 64; ++hops) below = below->input(0).node();
    count += grouping.nodes[below->index].operations;
  }
  return count;
}

bool is_slow(const Node& node) {
  if (is_reduce(node.op) || node.op == Op::gather || node.op == Op::random_bits) return true;
  return info(node.op).cost > 8;
}

bool reads_in_place(const Grouping& grouping, const Providers& providers, Device device, const Node& node,
                    const Tensor& operand, const Tensor& base) {
  IndexVector index;
  const Shape& shape = type_of(operand).shape;
  for (int i = 0; i < shape.rank(); ++i) index.push_back(dims::axis(i, shape[i]));
  IndexVector mapped = index;
  for (const Node* view = operand.node(); view != base.node(); view = view->input(0).node())
    mapped = map_through_view(*view, mapped);
  const Dim offset = grouping.memory_index(*base.node(), mapped);
  bool packed = base.node()->op == Op::data && node.op == Op::matmul;  // a constant is packed once (schedule.cpp)
  std::vector<Dim> strides;
  for (int i = 0; i < shape.rank(); ++i) {
    auto [linear, stride] = dims::linear_in(offset, index[static_cast<std::size_t>(i)]);
    if (!linear) return false;
    packed &= shape[i].is_constant();
    strides.push_back(stride);
  }
  return packed || providers.reads(node, device, shape, strides);
}

void realize(const Graph& graph, Grouping& grouping) {
  const Readers readers = find_readers(graph, grouping);
  std::vector<Cheapness> cost(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    Placement& placement = grouping.nodes[i];
    Cheapness& own = cost[i];
    if (placement.realized || (placement.role != Role::inlined && placement.role != Role::grouped)) {
      own = from_memory;
      continue;
    }
    for (const Tensor& operand : node.inputs()) {
      const Cheapness& below = cost[operand.node()->index];
      own.operations = std::min(own.operations + below.operations, enough);
      own.loads = std::min(own.loads + below.loads, enough);
      own.slow |= below.slow;
      own.reduces |= below.reduces;
    }
    if (!is_view(node.op) && info(node.op).kind != OpKind::leaf) ++own.operations;
    own.slow |= is_slow(node);
    own.reduces |= is_reduce(node.op) && !reduces_nothing(node);
    const int reader = readers.group[i];
    if (placement.role != Role::grouped || reader == Readers::none || reader == placement.group) continue;
    const bool cheap = !own.slow && own.operations <= 3 && own.loads <= 2;
    const bool sole = reader != Readers::several && !readers.stretched[i] && own.operations <= 24 && own.loads <= 8;
    if (!own.reduces && (cheap || sole)) continue;
    placement.realized = true;
    own = from_memory;
  }
}

}  // namespace weft
