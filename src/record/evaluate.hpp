// Evaluation outside a trace: computes pending values one recorded operation at a time with the eager executor.
// In: handles. Out: the same handles, now with storage. Invariant: values do not change; operands are severed unless a
// differentiation level needs them.
#pragma once
#include <functional>

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

 private:
  int first_, last_;
};

// Differentiation levels that are open, in all threads, by the sequence numbers at which they began. A value recorded
// after the oldest of them keeps its operands when it is evaluated, by whatever thread, until that level closes.
void open_level(std::uint64_t start);
void close_level(std::uint64_t start);

// Runs a whole graph with the eager executor, node by node: what a specialization does when it has no kernels. `inputs`
// by slot, `symbols` by number. Checks throw the user's error. The graph stays as it is and can be run again. `watch`
// is called after each node, with its results.
using WatchNode = std::function<void(const Node& node, std::span<const Tensor> results)>;
std::vector<Tensor> run_eagerly(const Graph& graph, std::span<const Tensor> inputs,
                                std::span<const std::int64_t> symbols, Loc loc, const WatchNode* watch = nullptr);

// What a value is asked for on the host: whether it is not 0; an integer, rounded towards 0; of a floating value one
// from 0 on that may need all 64 bits, as a std::uint64_t has them; or all of its elements.
enum class Asked : std::uint8_t { boolean, integer, natural, elements };
// An answer, as text.
std::string answer_text(Asked asked, std::int64_t answer);
// All but the last, of a computed value of one element. Throws where it is no integer of 64 bits and one is asked for.
std::int64_t answer(const Tensor& value, Asked asked, Loc loc);

// Throws: data from host memory in a compiled function that has read no value yet, or can read none.
[[noreturn]] void refuse_host_data(const char* operation, Loc loc);

// For functions whose results have sizes that depend on values: the value in this call, outside of a trace. Throws in a
// trace that can't read it.
Tensor known_value(const char* operation, const Tensor& value, Loc loc);
// What such a function has found, whose first size another call need not have.
Tensor counted_data(std::span<const std::int64_t> elements, const Shape& shape, Device device, Loc loc);

// Computed contents, contiguous: the storage itself when it is, else a copy. The caller owns a reference.
struct Contiguous {
  Storage* storage;
  std::int64_t offset;  // elements
};
Contiguous contiguous(const Tensor& value, Loc loc);

// A tensor over existing memory: takes over the caller's reference to `storage`.
Tensor make_data(Storage* storage, Type type, Loc loc);
Storage* storage_of(const Tensor& value);      // null while not computed
const Layout* layout_of(const Tensor& value);  // null: contiguous at 0

}  // namespace weft
