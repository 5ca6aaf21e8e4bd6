#include "record/record_body.hpp"

#include <algorithm>

#include "record/composite.hpp"
#include "record/place_guard.hpp"

namespace weft {
namespace {

Tensor record_again(const Node& node, std::span<const Tensor> operands) {
  const PlaceGuard place;
  place.enter(node);
  return record_node(node, operands);
}

}  // namespace

Tensor record_node(const Node& node, std::span<const Tensor> operands) {
  if (node.callee()) {
    const Tensor call = record_call(node.more->callee, operands, node.loc, node.definition);
    if (node.recomputation) mark_as_recomputation(call);
    return call;
  }
  if (node.op == Op::data) {  // the same memory
    const Tensor copy = Builder::copy(node, operands);
    copy.node()->trace = recorder().trace() ? recorder().trace()->id : 0;
    return copy;
  }
  if (node.bodies().empty() && node.op != Op::host_call)
    return record(node.op, operands, node.attributes(), node.type, node.loc);
  std::vector<Type> types{node.type};
  types.insert(types.end(), node.more_types().begin(), node.more_types().end());
  return record_region(node.op, operands, node.attributes(), types, {node.bodies().begin(), node.bodies().end()},
                       node.loc);
}

bool is_checkpoint(const Callee& callee) { return interned_text(called_name(callee.called).id) == "checkpoint"; }

void mark_as_recomputation(const Tensor& call) {
  if (const Trace* const trace = recorder().trace())
    call.node()->recomputation = static_cast<std::uint32_t>(trace->recorded + 1);
}
void keep_recomputations_of(const Graph& copied) {
  std::uint64_t& recorded = recorder().trace()->recorded;
  for (const Tensor& value : copied.nodes) recorded = std::max<std::uint64_t>(recorded, value.node()->recomputation);
}

std::vector<Tensor> record_body(const Graph& body, std::span<const Tensor> arguments) {
  WEFT_CHECK(body.inputs.size() == arguments.size(), "a body without fitting arguments");
  std::vector<Tensor> recorded(body.nodes.size()), operands, outputs;  // output 0 of each node
  const auto place = [&](const Tensor& value) {
    const Tensor& first = recorded[body.number(value)];
    const bool is_input = value.node()->op == Op::input;
    return is_input ? first : Tensor(first.node(), value.output());
  };
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const Node& node = *body.nodes[i].node();
    if (node.op == Op::input) {
      recorded[i] = arguments[static_cast<std::size_t>(node.attributes<Parameter>().slot)];
      continue;
    }
    operands.clear();
    for (const Tensor& operand : node.inputs()) operands.push_back(place(operand));
    recorded[i] = record_again(node, operands);
  }
  for (const Tensor& output : body.outputs) outputs.push_back(place(output));
  return outputs;
}

}  // namespace weft
