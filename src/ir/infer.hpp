// Inference: the type of an operation's result from its operands' types and attributes, over symbolic sizes.
// Operands of pointwise primitives already have one shape and one dtype (the front functions broadcast and promote);
// what does not fit is the user's error, named with the operation, the types and the line.
#pragma once
#include "ir/table.hpp"

namespace weft {

// `wanted` carries what operands do not determine: dtype of cast/constant/iota/input, shape of
// reshape/expand/slice/leaf.
Type infer(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted, Loc loc);

// "f32[64,128] x f32[256,32]"
std::string describe_operands(std::span<const Tensor> operands);

}  // namespace weft
