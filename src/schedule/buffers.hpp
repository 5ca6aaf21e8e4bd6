// The buffers of a schedule while its steps are made. In: a grouping, which says what gets memory and in which layout.
// Out: a buffer for each such value, but for windows, which lie in the buffer of their concatenation; how operands of
// library steps lie in memory; temporaries that no value of the graph has.
#pragma once
#include "schedule/group.hpp"

namespace weft {

class ScheduleBuffers {
 public:
  // Adds to `buffers`, the schedule's; notes layouts in the grouping.
  ScheduleBuffers(const Graph& graph, Grouping& grouping, std::vector<ScheduleBuffer>& buffers);

  // Whether a part of a concatenation in memory is written where it lies there, and not copied.
  bool is_written_in_place(Tensor part) const;
  // The buffer in which a value that has memory lies, and how many elements that has.
  int of(const Node& node) const;
  Dim elements_of(const Node& node) const { return owner(node).type.shape.element_count(); }

  int add_temporary(DType dtype, Dim elements);
  // How an operand of a step of this depth lies in the memory below its views, and below a gather of matrices that a
  // product reads in their table. A view that is a result may be copied
  // only later than the step runs, at a depth that is not less than the step's: then that is not its memory yet.
  PlacedValue operand(const Tensor& value, int depth) const;
  // A constant that has unit stride along neither axis of a product would be put in order by each call: once is enough.
  void pack_constant(PlacedValue& value);
  // Drops the elements of those of which only packed copies are read.
  void drop_unread_constants(const std::vector<Step>& steps);

 private:
  bool lies_in_window(const Node& node) const;
  // Whose buffer a value's memory is part of, or all of.
  const Node& owner(const Node& node) const;
  void note_layout(const Node& node);

  const Graph& graph_;
  Grouping& grouping_;
  std::vector<ScheduleBuffer>& buffers_;
  std::vector<int> buffer_;  // by node; -1: no memory
};

}  // namespace weft
