#include "ir/size_marks.hpp"

#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/fork.hpp"
#include "base/lazy.hpp"

namespace weft {
namespace {

struct OutputMark {
  unsigned output;
  SizeMark mark;
  bool is_of(const Tensor& value, int axis) const { return output == value.output() && mark.axis == axis; }
};
using Marks = std::vector<OutputMark>;

std::unordered_map<const Node*, Marks>& marks_of_nodes() {
  static constinit Lazy<std::unordered_map<const Node*, Marks>> marks;
  return marks.get();
}
// No other lock is taken while this one is held, since a node may be freed under any.
ProcessMutex& mutex() { return process_mutex(LockOrder::size_marks); }

}  // namespace

void set_size_mark(const Tensor& value, const SizeMark& mark) {
  std::lock_guard lock(mutex());
  Marks& marks = marks_of_nodes()[value.node()];
  std::erase_if(marks, [&](const OutputMark& each) { return each.is_of(value, mark.axis); });
  marks.push_back({value.output(), mark});
  __atomic_store_n(&value.node()->has_size_marks, true, __ATOMIC_RELEASE);
}

std::optional<SizeMark> size_mark(const Tensor& value, int axis) {
  if (!__atomic_load_n(&value.node()->has_size_marks, __ATOMIC_ACQUIRE)) return {};
  std::lock_guard lock(mutex());
  for (const OutputMark& each : marks_of_nodes()[value.node()])
    if (each.is_of(value, axis)) return each.mark;
  return {};
}

void forget_size_marks(const Node& node) {
  if (!node.has_size_marks) return;
  std::lock_guard lock(mutex());
  marks_of_nodes().erase(&node);
}

}  // namespace weft
