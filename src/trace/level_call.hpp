// Calls of compiled functions inside a differentiation level. In: a specialization that was traced for such calls. Out:
// each of its calls as one value of the level, whose derivative is compiled as well. The forward segment gives, besides
// its results, those values that ir/partition.hpp saves. A derivative is made when it is first asked for, for the
// operands whose gradients are wanted and the results that have one, or for tangents; or at the first call, for all
// results, where CompileOptions::derivative_at_once says so. It runs at once, and is such a call itself, so derivatives
// of any order are compiled. A derivative of a call that was compiled before, for other operands, results or sizes,
// counts towards recompile_limit; one that may not be compiled runs node by node and is derived in each call.
// Invariant: what is not saved is computed again from the operands, so any derivative can be made, whatever was saved.
#pragma once
#include "trace/call_context.hpp"
#include "trace/derivation.hpp"

namespace weft::detail {

// What a call inside a level has computed, as a graph, and its derivatives.
class LevelBody : public std::enable_shared_from_this<LevelBody> {
 public:
  // The results of the graph are the visible ones, then those that are kept. `passes`: the first word of the call.
  LevelBody(Graph graph, std::size_t visible, std::vector<SavedValue> saved, Backend backend, std::uint64_t passes);
  ~LevelBody();

  // From now on the first call compiles the derivative for these operands, and for these of the results. Before it is
  // called.
  void compile_at_once(std::span<const unsigned char> wanted, std::span<const unsigned char> given);
  // The computed outputs of a call become results of one value that reads the operands.
  void make_call(Function& function, std::span<const Tensor> operands, std::span<const std::int64_t> symbols,
                 std::span<Tensor> outputs, Loc loc) const;
  bool depends(unsigned result, std::size_t operand) const { return dependences_[result][operand]; }
  // The gradients of the operands of a call, from those of its results, or, forward, the tangents of its results from
  // those of its operands; undefined: not wanted, or zero.
  void differentiate(Function& function, const Node& call, std::span<const std::int64_t> symbols, bool forward,
                     std::span<const Tensor> given, std::span<const unsigned char> wanted,
                     std::span<Tensor> results) const;
  // Adds a line for each value that is saved and each derivative that was compiled, and below it those of its own
  // derivatives.
  void add_texts(const std::string& indent, std::vector<std::string>& lines) const;

 private:
  struct Derivative;
  // Without a lock. Null where none fits.
  const Derivative* find(const AskedDerivative& asked, std::span<const std::int64_t> symbols) const;
  // The one that another thread has made meanwhile, or a new one, which is in `own` where no other call may find it.
  const Derivative* make(CallContext call, const AskedDerivative& asked, std::unique_ptr<const Derivative>& own) const;
  std::unique_ptr<Derivative> derive(CallContext call, const AskedDerivative& asked, Backend backend,
                                     std::shared_ptr<KernelJob>& job) const;

  void compile_derivative(Function& function, std::span<const std::int64_t> symbols, Loc loc) const;

  Graph graph_;
  std::vector<std::vector<bool>> dependences_;
  std::size_t visible_;
  std::vector<SavedValue> saved_;
  Backend backend_;
  std::uint64_t passes_;
  const std::uint64_t id_ = new_id();
  std::vector<unsigned char> wanted_at_once_, given_at_once_;  // by operand, by result; empty: at its first use
  // The one that was made last; each knows the one before. The list grows under the function's mutex.
  mutable std::atomic<const Derivative*> derivatives_{nullptr};
};

// Chooses what the forward segment of a trace keeps, and adds it to what the trace gives. Null where no result depends
// on an argument that is differentiated.
std::shared_ptr<const LevelBody> make_level_body(CallContext call, TraceResult& traced, Backend backend);

}  // namespace weft::detail
