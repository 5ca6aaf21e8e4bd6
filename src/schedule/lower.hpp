// Lowering: a group of nodes as one kernel of the loop IR. In: values to store, each with the index space it is walked
// in. Out: a kernel (or several stages of one) whose body computes every value on demand at the index where it is read:
// views vanish into index expressions, what has memory is loaded, everything else is computed in place. What a pad or a
// concatenation reads is asked for outside of its operand too: tests of the index are then the predicate of its loads.
#pragma once
#include "loop/stages.hpp"
#include "schedule/group.hpp"

namespace weft {

// One store: element `target` of the buffer becomes `value` at `index`.
struct StorePoint {
  Tensor value;
  IndexVector index;
  int buffer;    // its number in the schedule
  DType dtype;   // of the buffer
  Dim elements;  // of the buffer
  Dim target;
};

struct LoweringContext {
  Device device;
  const Grouping& grouping;
  std::function<int(const Node&)> buffer_of;  // the schedule's buffer of a value that has memory
  std::function<Dim(const Node&)> elements_of;
  bool elides_roundings = false;
};

// Whether a kernel of this group, at this depth, loads the value: memory that is complete when it runs. A value of this
// very group is computed.
bool has_memory(const Grouping& grouping, const Tensor& value, int group, int depth);

// `walked`: the group, whose domain the kernel's axes are. `group`: its number in the grouping, whose members the
// kernel computes; -1 for a part of an assembled value, which is copied over a domain of its own. Axes that all
// accesses walk as one are merged. Sizes that only bound a loop become size slots: parameters of the kernel.
loop::Stages lower(const LoweringContext& context, const Group& walked, int group, std::span<const StorePoint> stores);

}  // namespace weft
