#include "ir/collective.hpp"

#include "base/fail.hpp"
#include "ir/attributes.hpp"

namespace weft {

CollectiveOperation collective_of(Op op, const Attributes& attributes, DType dtype) {
  using Kind = CollectiveOperation::Kind;
  const auto of_group = [&](Kind kind) {
    return CollectiveOperation{kind, dtype, static_cast<int>(attributes.as<Collective>().processes)};
  };
  const auto with_root = [&](Kind kind) {
    const auto& rooted = attributes.as<RootedCollective>();
    return CollectiveOperation{kind, dtype, static_cast<int>(rooted.processes), static_cast<int>(rooted.root)};
  };
  switch (op) {
    case Op::all_reduce_start: return of_group(Kind::all_reduce);
    case Op::broadcast: return with_root(Kind::broadcast);
    case Op::reduce_to_root: return with_root(Kind::reduce_to_root);
    case Op::all_gather: return of_group(Kind::all_gather);
    case Op::reduce_scatter: return of_group(Kind::reduce_scatter);
    default: WEFT_CHECK(false, info(op).name, " is no collective");
  }
  return {};
}

}  // namespace weft
