#include "record/host_call.hpp"
#include "autograd/call.hpp"
#include "base/fail.hpp"
#include "ir/host_function.hpp"
#include "record/linalg.hpp"
#include "record/record.hpp"

namespace weft {

using linalg::result_of;

void differentiate_host_call(const Pullback& p) {
  const Node& node = p.node();
  const auto& called = node.attributes<HostCalled>();
  if (!called.gives) return;
  const detail::HostCallable& derivative = host_function(called.function).derivative;
  if (!derivative.call)
    fail("host_call", node.loc,
         "the function has no derivative: give it one with HostFunction(fn).with_derivative(d), or apply stop_gradient "
         "to its operands or results");
  std::vector<Tensor> given(node.inputs().begin(), node.inputs().end());
  for (unsigned i = 0; i < node.output_count; ++i) given.push_back(result_of(p.value, i));
  for (unsigned i = 0; i < node.output_count; ++i)
    given.push_back(p.gradients[i].defined() ? p.gradients[i]
                                             : constant_like(0, type_of(result_of(p.value, i)), node.loc));
  require_host_operands("host_call's derivative", derivative, given.size(), node.loc);
  const std::vector<Tensor> found = derivative.call(derivative.function, given);
  if (found.size() != node.operand_count)
    fail("host_call", node.loc, "its derivative gives ", found.size(), " tensors, there are ",
         counted(node.operand_count, "operand", "operands"));
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!p.wanted[i] || !found[i].defined()) continue;
    const Type &type = type_of(found[i]), &wanted = type_of(p.operand(i));
    if (type.dtype != wanted.dtype || !(type.shape == wanted.shape))
      fail("host_call", node.loc, "its derivative gives ", to_string(type), " for operand ", i, ", which is ",
           to_string(wanted));
    p.results[i] = found[i];
  }
}

}  // namespace weft
