#include "ir/table.hpp"

namespace weft {

const OpInfo& info(Op op) {
  static constexpr OpInfo table[] = {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, ...) \
  {#name, arity, OpKind::pointwise, DTypeClass::dtypes, Rounding::rounding, cost, #lanes, &attribute_type<None>},
#define WEFT_STRUCTURAL(name, arity, kind, attributes) \
  {#name, arity, OpKind::kind, DTypeClass::structural, Rounding::several, 1, "", &attribute_type<attributes>},
#include "weft/ops.def"
  };
  return table[static_cast<int>(op)];
}

}  // namespace weft
