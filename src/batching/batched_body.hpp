// What the batches of calls, loops and choices are made of: the body of the batch, while it is recorded.
#pragma once
#include "batching/batch.hpp"
#include "record/loops.hpp"

namespace weft {

// The values alone; and by value, whether examples differ in it.
std::vector<Tensor> values_of(std::span<const Batched> all);
std::vector<bool> flags_of(std::span<const Batched> all);
// The first results of a value's node, as many as there are flags; examples differ where these say so.
std::vector<Batched> batched_results(const Tensor& value, const std::vector<bool>& differ);

// It captures nothing: what it reads of its own trace are inputs.
class BatchedBody {
 public:
  explicit BatchedBody(const BatchedNode& b)
      : loc_(b.node.loc), scope_({b.node.loc, nullptr, b.node.scope}, b.node.loc) {}

  Batched input(const Type& type, bool differs);
  // Adds inputs for those from `begin` to `end` of the body of one example; where the flags say so they hold all
  // examples.
  void append_inputs(std::vector<Batched>& to, const Graph& of_one, const std::vector<bool>& differ,
                     const Batcher& batcher, std::size_t begin, std::size_t end);
  // An input for the examples that are active; undefined where all are.
  Tensor active(const Batcher& batcher);
  std::shared_ptr<const Graph> take(std::vector<Tensor> outputs);

 private:
  const Loc loc_;
  LoopBody scope_;
  std::vector<Tensor> inputs_;
};

}  // namespace weft
