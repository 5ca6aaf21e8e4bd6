// Calls that have their results when they are recorded: those of compiled functions inside a differentiation level
// (trace/level_call.hpp). In: operands, computed results, and how the call is differentiated. Out: a value of the
// level. Invariant: it holds its operands until the open levels close, and has no body.
#pragma once
#include "record/evaluate.hpp"
#include "record/record.hpp"

namespace weft {

struct ComputedCallee : Callee {
  explicit ComputedCallee(const Attributes& called);
  virtual ~ComputedCallee() = default;
  // As a rule of autograd/rules.hpp: `results` are the gradients of the operands.
  virtual void differentiate(const Node& call, std::span<const Tensor> gradients, std::span<const unsigned char> wanted,
                             std::span<Tensor> results) const = 0;
  // As a rule of autograd/tangents.hpp: `results` are the tangents of the results that are wanted.
  virtual void push(const Node& call, std::span<const Tensor> tangents, std::span<const unsigned char> wanted,
                    std::span<Tensor> results) const = 0;
  // Whether a gradient of the result may flow to the operand.
  virtual bool depends(unsigned result, std::size_t operand) const = 0;
};
// That of the node; null where it is another call, or none.
const ComputedCallee* computed_callee(const Node& node);

Tensor make_computed_call(std::shared_ptr<const ComputedCallee> callee, std::span<const Tensor> operands,
                          std::span<const Tensor> results, Loc loc);
// A computed value once more, as a value of its own that reads it, until the open levels close.
Tensor computed_alias(const Tensor& value, Loc loc);

// Whether compiled functions that are called with values of the thread's open levels run as the plain function: in
// levels that ask for a linear function, whose cotangents or tangents are not known when a computed call would run.
inline thread_local constinit bool calls_join_levels = false;

}  // namespace weft
