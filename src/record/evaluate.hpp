// Evaluation outside a trace: computes pending values one recorded operation at a time with the eager executor.
// In: handles. Out: the same handles, now with storage. Invariant: values do not change; operands are severed unless a
// differentiation level needs them.
#pragma once
#include "base/fork.hpp"
#include "ir/graph.hpp"

namespace weft {

void evaluate(std::span<const Tensor> values, Loc loc, const char* operation = "eval");

// Whoever follows or drops the operands of nodes that other threads may evaluate holds this. Of pending nodes first
// those that this thread has recorded: threads that evaluate what is their own do not wait for each other. Who meets a
// node of another thread takes the locks of all, and begins again.
class EvaluationLock {
 public:
  EvaluationLock();
  ~EvaluationLock();
  EvaluationLock(const EvaluationLock&) = delete;
  bool covers(const Node& node) const;
  void cover_all();  // gives up what it has first: what was read must be read again
  void leave();      // until come_back(): what is evaluated calls the program's code, which may evaluate too
  void come_back();

 private:
  int first_, last_;
};

// Differentiation levels that are open, in all threads, by the sequence numbers at which they began. A value recorded
// after the oldest of them keeps its operands when it is evaluated, by whatever thread, until that level closes.
void open_level(std::uint64_t start);
void close_level(std::uint64_t start);

// A tensor over existing memory: takes over the caller's reference to `storage`.
Tensor make_data(Storage* storage, Type type, Loc loc);
Storage* storage_of(const Tensor& value);      // null while not computed
const Layout* layout_of(const Tensor& value);  // null: contiguous at 0

}  // namespace weft
