// Batching: what vmap does with the function that it has recorded. In: a graph that says what happens to one example,
// its operands, and which of these hold all examples, along axis 0. Out: its results, recorded in the current trace a
// node at a time. What depends on no example is recorded once, as it was. Bodies of loops and of calls are batched in
// the same way, graph to graph. One rule a primitive (rules.cpp), expanded from weft/ops.def: one without does not
// compile.
#pragma once
#include "ir/callee.hpp"
#include "record/record.hpp"
#include "weft/vmap.hpp"

namespace weft {

// A value of all examples: where they differ, axis 0 is theirs.
struct Batched {
  Tensor value;
  bool differs = false;
};

class Batcher {
 public:
  // `active`: a bool [size], true for the examples whose results count, in a branch that others do not take; undefined:
  // all do. Checks of the others pass, and their positions, which may be out of range, are 0.
  Batcher(Dim size, Randomness randomness, Tensor active = {})
      : size_(size), randomness_(randomness), active_(std::move(active)) {}

  std::vector<Batched> run(const Graph& graph, std::span<const Batched> operands) const;

  Dim size() const { return size_; }
  Randomness randomness() const { return randomness_; }
  const Tensor& active() const { return active_; }
  Batcher among(Tensor active) const { return {size_, randomness_, std::move(active)}; }

  // [size, sizes...]
  Shape shape(const Shape& of_one) const;
  Type type(Type of_one) const;
  // The value with axis 0 for the examples: expanded, where they do not differ.
  Tensor all(const Batched& value) const;
  // A value [size], a number for each example, in this shape of a value of all of them.
  Tensor spread(const Tensor& of_each, const Shape& shape) const;

 private:
  Dim size_;
  Randomness randomness_;
  Tensor active_;
};

// What a rule is given: a node and its operands, one of which differs; or a node that every example must do by itself.
struct BatchedNode {
  const Node& node;
  std::span<const Batched> operands;
  const Batcher& batcher;

  bool differs(std::size_t i) const { return operands[i].differs; }
  const Tensor& value(std::size_t i) const { return operands[i].value; }
  Tensor all(std::size_t i) const { return batcher.all(operands[i]); }
  Dim size() const { return batcher.size(); }
};
// The results of the node, in order.
using BatchingRule = std::vector<Batched> (*)(const BatchedNode&);
BatchingRule batching_rule(Op op);

// What has bodies: calls (calls.cpp), loops and choices (loops.cpp).
std::vector<Batched> batch_call(const BatchedNode&);
std::vector<Batched> batch_scan(const BatchedNode&);
std::vector<Batched> batch_while_loop(const BatchedNode&);
std::vector<Batched> batch_cond(const BatchedNode&);
// The node for one example after the other, as a scan.
std::vector<Batched> batch_by_rows(const BatchedNode&);
// Whether a body draws random numbers, or reads or writes at positions that are data.
bool draws(const Graph& graph);
bool has_positions(const Graph& graph);
// Whether examples do it by themselves though they do not differ in its operands: each draws by itself, and, where some
// are not active, fails by itself.
bool is_of_each(const Node& node, const Batcher& batcher);
// Outside of a trace a check is looked at when it is recorded.
void check_now(const Tensor& token, Loc loc);
// Whether no operation of a body refuses operands in which examples differ, and no tensor has as many axes as there may
// be.
bool can_batch(const Graph& graph);

// Whether a callee is the batch of one that has a derivative of its own, and the gradients of its operands then: as
// CallDerivative, for each example by itself, summed up for an operand in which they do not differ.
bool is_batch_with_derivative(const Callee& callee);
void differentiate_batch(const Callee& callee, const CallValues& values, std::span<Tensor> operand_gradients);

}  // namespace weft
