// Sizes of 1 among symbolic ones. A size of an argument, and a product of some (axes that were merged), may be 0 or 1
// in one call and greater in another. An operation asks whether it is 1, which a guard remembers, only where the answer
// matters: where it meets another size, which a 1 is repeated to, and where it decides the order in which floats are
// added.
#pragma once
#include "record/record.hpp"

namespace weft {

// with_plain_ones, which asks about computed sizes and, along these axes, about sizes of arguments too.
Tensor with_ones_at(const Tensor& value, AxisSet axes, Loc loc);
// The same for operands that broadcast, besides their last `kept` axes: along axes where their sizes differ.
void settle_ones(std::span<Tensor> operands, int kept, Loc loc);
// The value with its ones settled for an expansion to this shape.
Tensor settled_for(const Tensor& value, const Shape& shape, Loc loc);
// The value with its ones settled for a sum, or product, of floats over these axes.
Tensor settled_for_sum(const Tensor& value, AxisSet over, Loc loc);

}  // namespace weft
