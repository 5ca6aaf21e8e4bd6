// Convolutions and their gradients, primitive by primitive: padding, a copy of the windows and a product. f16 and bf16
// are computed as f32 and rounded at the end.
#include "ir/convolution.hpp"

#include "eager/eager.hpp"

namespace weft::eager {
namespace {

// The one output of a graph of single primitives.
Value run(const Graph& graph, std::span<const Value> inputs) {
  std::vector<std::size_t> last_use(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const Tensor& operand : graph.nodes[i].node()->inputs()) last_use[operand.node()->index] = i;
  std::vector<Value> values(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    if (node.op == Op::input) {
      values[i] = inputs[static_cast<std::size_t>(node.attributes<Parameter>().slot)];
      continue;
    }
    std::vector<Value> operands;
    for (const Tensor& operand : node.inputs()) operands.push_back(values[operand.node()->index]);
    values[i] = execute(node.op, node.attributes(), node.type, operands, node.loc);
    for (const Tensor& operand : node.inputs())
      if (last_use[operand.node()->index] == i) values[operand.node()->index] = {};
  }
  return values[graph.outputs[0].node()->index];
}

}  // namespace

Value execute_convolution(Op op, const Attributes& attributes, const Type& type, std::span<const Value> operands,
                          Loc loc) {
  if (type.dtype == DType::f16 || type.dtype == DType::bf16) {
    Type wide = type;
    wide.dtype = DType::f32;
    const Value converted[] = {convert(operands[0], DType::f32), convert(operands[1], DType::f32)};
    return convert(execute_convolution(op, attributes, wide, converted, loc), type.dtype);
  }
  const Builder build(loc, 0, 0);
  std::vector<Tensor> inputs{build.input(0, operands[0].type), build.input(1, operands[1].type)};
  const Tensor whole = build.make(op, inputs, attributes, type);
  std::vector<Tensor> outputs{convolution_by_products(*whole.node(), inputs[0], inputs[1])};
  return run(make_graph(std::move(inputs), std::move(outputs), {}), operands);
}

}  // namespace weft::eager
