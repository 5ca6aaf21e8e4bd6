#include <optional>

#include "autograd/backward.hpp"
#include "autograd/loops.hpp"
#include "autograd/zeros.hpp"
#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "ir/host_function.hpp"
#include "record/loops.hpp"

namespace weft {

void differentiate_cond(const Pullback& p) {
  const Node& node = p.node();
  std::vector<std::vector<Tensor>> given(2), inputs(2);
  std::optional<LoopBody> scopes[2];
  std::vector<Tensor> operands(node.inputs().begin(), node.inputs().end());
  for (const Tensor& gradient : p.gradients)
    if (gradient.defined()) operands.push_back(gradient);
  for (std::size_t b = 0; b < 2; ++b) {
    const Graph& body = *node.bodies()[b];
    for (const Tensor& value : body.nodes)
      if (runs_once(*value.node()))
        fail("host_call", value.node()->loc,
             "gives a value, or is called in a loop or a choice, in a branch of cond that is differentiated, which "
             "computes values again: call it outside of the branch");
    LoopBody& scope = scopes[b].emplace(BodyPlace{node.loc, nullptr, node.scope});
    std::vector<Tensor> arguments, variables, values, seeds, effects;
    for (const Tensor& input : body.inputs) arguments.push_back(scope.input(type_of(input)));
    inputs[b] = arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (p.wanted[i + 1]) variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, node.loc));
    const std::vector<Tensor> results = apply_body(
        body, arguments, {node.loc, node.scope, scope.id()}, [](const Node&) { return false; }, effects);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!p.gradients[i].defined()) continue;
      values.push_back(results[i]);
      seeds.push_back(inputs[b].emplace_back(scope.input(type_of(results[i]))));
    }
    given[b] = pull_back(values, seeds, variables, "grad", node.loc);
    // Zeros where the other branch alone has a gradient.
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (!given[b][i].defined()) given[b][i] = zeros_of(variables[i], node.loc);
    scope.close();
    WEFT_CHECK(scope.captured().empty(), "the derivative of a branch captures");
  }
  std::vector<Type> types;
  for (const Tensor& gradient : given[0]) types.push_back(type_of(gradient));
  std::vector<std::shared_ptr<const Graph>> bodies;
  for (std::size_t b = 0; b < 2; ++b) bodies.push_back(scopes[b]->take(std::move(inputs[b]), std::move(given[b])));
  const std::vector<Tensor> results =
      results_of(record_region(Op::cond, operands, {}, types, std::move(bodies), node.loc));
  for (std::size_t i = 0, next = 0; i < p.results.size(); ++i)
    if (i > 0 && p.wanted[i]) p.results[i] = results[next++];
}

}  // namespace weft
