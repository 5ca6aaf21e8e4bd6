#include "record/custom_callee.hpp"

#include "base/fail.hpp"
#include "record/composite.hpp"

namespace weft {
namespace {

// Asked only where calls of it were put together to another one.
void refuse_body(const CallValues& values, std::span<Tensor>) {
  fail(interned_text(called_name(values.called).id).c_str(), outermost({}),
       "it was put together with other calls, and its rule is of one call");
}

}  // namespace

CustomCallee::CustomCallee(const Attributes& called) : Callee{called, {}, refuse_body} {}
const CustomCallee* custom_callee(const Node& node) {
  const Callee* const callee = node.callee();
  return callee && callee->derivative == refuse_body ? static_cast<const CustomCallee*>(callee) : nullptr;
}

}  // namespace weft
