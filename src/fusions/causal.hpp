// Masks that a program makes of places: which of them are causal. In: a value over [..., queries, keys]. Out: its
// number where the key's place is not after the query's, and its number elsewhere, if it has no more than these.
#pragma once
#include <optional>

#include "ir/node.hpp"

namespace weft {

struct CausalNumbers {
  double seen, hidden;
};
// Of arange, comparisons of places, tril and triu of numbers, where, sums and products of such; by views that leave the
// last two axes where they are.
std::optional<CausalNumbers> causal_numbers(const Tensor& value);

}  // namespace weft
