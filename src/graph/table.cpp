#include "graph/table.hpp"

namespace weft {

const OpInfo& info(Op op) {
  static constexpr OpInfo table[] = {
#define WEFT_POINTWISE(name, arity, dtypes, lanes, ...) {#name, arity, OpKind::pointwise, DTypeClass::dtypes, #lanes},
#define WEFT_STRUCTURAL(name, arity, kind) {#name, arity, OpKind::kind, DTypeClass::structural, ""},
#include "weft/ops.def"
  };
  return table[static_cast<int>(op)];
}

}  // namespace weft
