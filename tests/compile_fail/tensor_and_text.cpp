// expect: the operands of a tensor's operators are tensors, parameters, Scalars, sizes and numbers
#include <string>

#include "weft/ops.hpp"

weft::Tensor join(const weft::Tensor& x) { return x + std::string("a"); }
