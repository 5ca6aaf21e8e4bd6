// Gradients of tables of which few rows are read. In: a lookup that asks for it. Out: the gradient of the table, a call
// of a name of its own over the index and the gradients of the rows: whoever reads it as a tensor gets the dense one,
// and who knows the name takes the rows. Invariant: outside a trace the call keeps its operands when it is computed, so
// that looking at a gradient does not change what an optimizer makes of it.
#pragma once
#include <optional>

#include "record/record.hpp"

namespace weft {

// The rows of `table` at `index`, which is in range, with such a gradient.
Tensor sparse_lookup(const Tensor& table, const Tensor& index, Loc loc);

struct GradientRows {
  Tensor index, rows;  // [n], [n, ...]: of an index that is there twice the rows are to be added up
};
// Such a gradient of a table of this type.
Tensor row_gradient(const Tensor& index, const Tensor& rows, const Type& table, Loc loc);
// Empty where it is no such gradient, but the dense one.
std::optional<GradientRows> rows_of_gradient(const Tensor& gradient, Loc loc);
bool is_row_gradient(const Node& node);

// The sum of two gradients of one value. Of two that have rows alone it has those of both.
Tensor add_gradients(const Tensor& a, const Tensor& b, Loc loc);

}  // namespace weft
