// Fusion: which nodes share a kernel. In: a graph. Out: groups, library steps, and which values get memory
// (realize.hpp).
//
// Nodes are taken in recording order. Every group and library step has a depth: one more than the deepest step it
// reads. A node joins the group of an operand when (a) it walks the same index space (its index in the group's axes is
// the one at which the operand is computed, views included), (b) everything else that it reads is shallower than the
// group, so no path leads from the group through another step back into it, and (c) its reduction runs over the group's
// inner axes (fit.hpp), as does what is cumulative. The groups are then merged by score (merge.hpp). Near-linear.
#pragma once
#include "schedule/layout.hpp"
#include "schedule/schedule.hpp"

namespace weft {

struct Group {
  int depth = 0;
  Shape domain;               // the sizes that its axes walk
  bool inner[max_rank] = {};  // reduced axes
  bool reduces = false;
  bool scans = false;    // some of its members are cumulative, over its one inner axis: a row is walked in order
  bool carries = false;  // some of its reductions are over the axes that are not inner
  std::vector<std::uint32_t> members;  // numbers of nodes, operands first
  std::vector<std::uint32_t> reads;    // values that others compute, or that have memory
  std::uint32_t recomputation = 0;     // of the first member
  std::uint32_t region = 0;            // of the first member
  std::string why;                     // it was opened: for the log
  int merged_into = -1;
};

enum class Role : std::uint8_t {
  leaf,       // input, data: has memory already
  inlined,    // constants, views, scalars: computed where they are read
  grouped,    // computed in a group; gets memory when `realized`
  external,   // matmul, convolution, scatters, check: a library step
  assembled,  // concat that is no formula (layout.hpp): memory that several kernels fill
};

struct Placement {
  Role role = Role::inlined;
  bool realized = false;
  bool column = false;  // grouped: reduces the axes that are not the group's inner ones, or reads what does
  bool chosen = false;  // a gather of matrices: products read its table and its index, and it may have no memory
  bool copied = false;  // grouped: was inlined before; a reader that runs before its group still computes it
  int group = -1;       // grouped
  int depth = 0;        // of the latest step that this value needs
  int operations = 0;   // inlined: pointwise ones that each reading of an element does
};

struct Grouping {
  const Graph* graph = nullptr;  // whose numbers count below
  std::vector<Placement> nodes;  // by node
  std::vector<Group> groups;
  std::vector<BufferLayout> layouts;  // by node, of those that are realized
  std::vector<Decision> decisions;    // for people

  int find(int group) const {
    while (groups[static_cast<std::size_t>(group)].merged_into >= 0)
      group = groups[static_cast<std::size_t>(group)].merged_into;
    return group;
  }
  const Group& group(int id) const { return groups[static_cast<std::size_t>(find(id))]; }
  Group& group(int id) { return groups[static_cast<std::size_t>(find(id))]; }
  // Whether a kernel may compute the value where it reads it: it has no memory, or not before that kernel runs.
  bool is_read_through(const Placement& value, int kernel) const {
    return value.role == Role::inlined || (value.copied && find(value.group) != find(kernel));
  }
  std::uint32_t number(const Node& node) const { return graph->number(node); }
  std::uint32_t number(const Tensor& value) const { return graph->number(value); }
  void note(const Node& node, std::string decision) {
    decisions.push_back({number(node), node.op, node.loc, std::move(decision)});
  }
  const Placement& operator[](const Tensor& value) const { return nodes[number(value)]; }
  // Of an element in the buffer of a leaf or of a realized value.
  Dim memory_index(const Node& node, const IndexVector& index) const {
    return weft::memory_index(node, layouts[number(node)], index);
  }
};

// Where nothing fuses, a group is one node. `borders`: none has nodes of two uses of regions, or of one and of what is
// around it.
Grouping group_nodes(const Graph& graph, Device device, const Providers& providers, bool fuses = true,
                     bool borders = false);

// The group's axes as index expressions: axis i of the domain.
IndexVector domain_index(const Group& group);
// The sizes of `shape` are those of the whole domain, but for ones.
bool fills_domain(const Group& group, const Shape& shape);
// A member's element at a point of the domain, or nothing when its shape fits neither the whole domain nor the outer
// axes.
bool member_index(const Group& group, const Shape& shape, IndexVector& index);
// The same of a member that comes after the reduction of all outer axes: its shape is that of the inner ones.
bool column_index(const Group& group, const Shape& shape, IndexVector& index);
// Whether every operand of a node at `index` that the group computes, through views and inlined values, is read at the
// very index at which the group computes it; by what comes after the rows, of columns, where `behind`.
bool operands_aligned(const Grouping& grouping, int group, const Node& node, const IndexVector& index, bool behind);
// Few outer points, each with a long reduction, which can be cut.
bool is_serial(const Group& group);
// Whether the node is a further result of a step that gives several (schedule.cpp): the step writes its memory.
bool is_further_result(const Node& node);
// The value below reshapes whose memory, row-major, is also this value's.
Tensor memory_base(const Tensor& value);
// A reduction, or what is cumulative: it walks axes in order.
bool walks(const Node& node);
// Reductions and what is cumulative over nothing but axes of size 1 are the operand itself.
bool reduces_nothing(const Node& node);

}  // namespace weft
