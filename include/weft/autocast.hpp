// Mixed precision: matrix products and convolutions in a 16-bit type, what needs range or precision in f32.
//   Tensor loss = [&] {
//     const Autocast scope(DType::bf16);        // until the end of the block
//     return cross_entropy(model(x), y);
//   }();
// or for all of a compiled function: compile(step, {.autocast = DType::bf16}).
// A function of PyTorch's lists casts its floating operands: `linear` to the 16-bit type, `softmax` to f32. All others
// take what they are given, by the rules of promotion. f64, integers and literals are not cast. docs/precision.md has
// the lists. Parameters stay f32, and so do their gradients, whether value_and_grad is called in the scope or around
// it: a derivative is computed in the types of the forward pass.
#pragma once
#include "weft/dtype.hpp"
#include "weft/error.hpp"

namespace weft {

// For this thread, until the end of the block; the innermost scope counts. A compiled function that is called in it is
// compiled for it. A weight that is differentiated is cast once in the outermost scope.
class Autocast {
 public:
  static constexpr DType off = DType::f32;  // a scope in which nothing is cast
  // bf16, f16 or off; throws Error where it is another type.
  [[nodiscard("weft: a scope without a name ends at once")]] explicit Autocast(DType type, Loc loc = Loc::current());
  ~Autocast();  // the type is as it was before
  Autocast(const Autocast&) = delete;

 private:
  DType saved_;
};

}  // namespace weft
