// What the primitives mean that move, order or combine elements: one function a kind. In: the operands, the result's
// type with its sizes as numbers. Out: the result.
#pragma once
#include "interpret/reference.hpp"

namespace weft::reference {

using Operands = std::span<const Literal* const>;

Literal interpret_view(Op op, const Attributes& attributes, const Type& type, const Literal& source);
Literal interpret_concat(const Along& along, const Type& type, Operands parts);
Literal interpret_pad(const Pad& pad, const Type& type, const Literal& source);
Literal interpret_reduce(Op op, const Reduce& reduce, const Type& type, const Literal& source);
Literal interpret_cumulative(Op op, const Along& along, const Type& type, const Literal& source);
Literal interpret_matmul(const Type& type, const Literal& a, const Literal& b);
Literal interpret_convolution(Op op, const Convolution& c, const Type& type, const Literal& a, const Literal& b);
Literal interpret_gather(const Node& node, const Type& type, const Literal& table, const Literal& index);
Literal interpret_argsort(const Order& order, const Type& type, const Literal& operand);
Literal interpret_update_slice(const Node& node, const Type& type, Operands operands);
Literal interpret_update_rows(const Node& node, const Type& type, Operands operands);
Literal interpret_scatter(const Node& node, const Type& type, const Literal& index, const Literal& updates);
Literal interpret_random_bits(const Type& type, const Literal& seed, const Literal& offset);

}  // namespace weft::reference
