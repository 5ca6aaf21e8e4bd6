// A primitive of kind `collective` as plain data.
#pragma once
#include "base/collective.hpp"
#include "ir/table.hpp"

namespace weft {

CollectiveOperation collective_of(Op op, const Attributes& attributes, DType dtype);

}  // namespace weft
