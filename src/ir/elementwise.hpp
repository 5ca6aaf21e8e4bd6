// Scalar expressions in a graph: what a node of Op::call applies. In: its definition. Out: the rows
// of the table that it is made of. The data itself is made by weft/expr.hpp.
#pragma once
#include "ir/node.hpp"
#include "weft/detail/expr_definition.hpp"

namespace weft {

inline bool is_primitive(const detail::ScalarEntry& entry) { return entry.op < detail::ScalarOp::argument; }
// Scalar operations are the pointwise rows of the table, which come first among Op.
inline Op op_of(const detail::ScalarEntry& entry) { return static_cast<Op>(entry.op); }

}  // namespace weft
