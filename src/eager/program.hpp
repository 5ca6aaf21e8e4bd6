// A call's body as one pass over memory. In: a body of known sizes on the CPU. Out: a program that takes a block of
// rows through all of it before the next, so that what lies between stays in the cache. The leading axes that no value
// mixes are rows; threads share them out. Invariant: the bits are those of the body run node by node.
#pragma once
#include <memory>

#include "eager/eager.hpp"
#include "eager/kernels.hpp"
#include "ir/graph.hpp"

namespace weft::eager {

class Program {
 public:
  // Null where most of the work is not by rows.
  static std::shared_ptr<const Program> lower(const Graph& body);
  std::vector<Value> run(std::span<const Value> operands) const;

  // Where a node of the body is computed.
  enum class Stage {
    before,  // whole, from the operands
    row,     // block by block
    view,    // of a value of stage `row`: nothing to compute
    folded,  // over the rows: partial results in the blocks, joined after them
    after,   // whole, from what the blocks gave
    inside   // not at all: another operation does it (Operation::Kind::take)
  };
  struct Operation {
    enum class Kind {
      pointwise,
      reduce,
      gather,  // `whole` is the table, the operand the index
      take     // `whole` is the index along an axis of the operand: permute, gather and permute of the body in one
    };
    Op op;
    int node;
    Kind kind = Kind::pointwise;
    std::vector<int> operands;  // nodes
    int whole = -1;             // the node that is read as a whole beside them
    PointwiseKernel kernel = nullptr;
    ReduceKernel reduce = nullptr;
    ScaledSumKernel scaled_sum = nullptr;  // in the place of `reduce`: a sum of a product with a constant, in one
    double scale = 1;
    DType computed, stored;   // of the result in the kernel, and in memory
    std::int64_t length = 1;  // of what a reduction takes together
    std::int64_t width = 1;   // gather, take: elements at one place
  };
  struct NodePlace {
    Stage stage = Stage::before;
    int base = -1;           // row, view: the node whose memory it is
    bool repeated = false;   // row, view: one element repeats over all of a row
    std::int64_t inner = 1;  // elements of a row; row: that are computed
    int slot = -1;           // row: its place in a block's memory; -1: in memory as a whole
    bool whole = false;      // row, view: read or given as a whole
  };

 private:
  friend class Lowering;
  friend class Execution;
  Graph graph_;  // nested calls inlined
  int outer_axes_ = 0;
  std::int64_t rows_ = 1, block_ = 1, unit_ = 1;  // a thread takes units of rows
  std::vector<NodePlace> placed_;                 // by node
  std::vector<Operation> operations_;
  std::vector<std::size_t> slots_;  // bytes a row
  std::size_t widest_ = 1;          // elements of a row
};

}  // namespace weft::eager
