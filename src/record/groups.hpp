// Calls of products over groups of rows (weft/groups.hpp). In: a callee. Out: whether it is one.
#pragma once
#include "ir/callee.hpp"

namespace weft {

// Their derivatives are calls of such products again, beside each other, so that a provider may take each whole: they
// are not the body of one call, as those of other composites.
bool is_product_of_groups(const Callee& callee);

}  // namespace weft
