// Convolutions and their gradients: by oneDNN, where it is installed, else primitive by primitive: padding, a copy of
// the windows and a product, of f16 and bf16 as f32, rounded to the result's dtype.
#include "ir/convolution.hpp"

#include <optional>
#include <vector>

#include "eager/eager.hpp"
#include "runtime/host/onednn_convolution.hpp"

namespace weft::eager {
namespace {

// The one output of a graph of single primitives.
Value run(const Graph& graph, std::span<const Value> inputs) {
  std::vector<std::size_t> last_use(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const Tensor& operand : graph.nodes[i].node()->inputs()) last_use[graph.number(operand)] = i;
  std::vector<Value> values(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    if (node.op == Op::input) {
      values[i] = inputs[static_cast<std::size_t>(node.attributes<Parameter>().slot)];
      continue;
    }
    std::vector<Value> operands;
    for (const Tensor& operand : node.inputs()) operands.push_back(values[graph.number(operand)]);
    values[i] = execute(node.op, node.attributes(), node.type, operands, node.loc);
    for (const Tensor& operand : node.inputs())
      if (last_use[graph.number(operand)] == i) values[graph.number(operand)] = {};
  }
  return values[graph.number(graph.outputs[0])];
}

// Nullopt if the library is absent or has no good kernel for these sizes.
std::optional<Value> by_library(Op op, const Convolution& attributes, const Type& type, const Value& a,
                                const Value& b) {
  const runtime::onednn::Library* const library = runtime::onednn::library();
  if (!library || !runtime::onednn::convolves_fast(*library, a.type.dtype)) return std::nullopt;
  const runtime::Convolved result = op == Op::convolution                  ? runtime::Convolved::output
                                    : op == Op::convolution_input_gradient ? runtime::Convolved::input
                                                                           : runtime::Convolved::weight;
  Value operands[] = {a, b};
  const auto list = [](const List<std::int64_t>& from) {
    return runtime::ConvolutionDims::List(from.begin(), from.end());
  };
  auto sizes = runtime::ConvolutionDims::of(result, a.type.dtype, a.type.shape, b.type.shape, type.shape,
                                            list(attributes.strides), list(attributes.low), list(attributes.high),
                                            list(attributes.dilation), attributes.groups)
                   ->known();
  sizes->is_wide = type.dtype != a.type.dtype;
  for (int i = 0; i < 2; ++i) {
    Value& operand = operands[i];
    const Layout& layout = operand.layout;
    const std::vector<Dim> strides(layout.strides, layout.strides + operand.sizes.rank);
    if (!runtime::convolution_reads(operand.type.shape, strides)) operand = make_contiguous(operand);
    auto& to = sizes->strides_of(runtime::value_of_operand(result, i));
    for (int axis = 0; axis < operand.sizes.rank; ++axis)
      if (operand.sizes.size[axis] != 1) to[static_cast<std::size_t>(axis)] = operand.layout.strides[axis];
  }
  const auto made = runtime::onednn::Convolution::find(*library, *sizes);
  if (!made) return std::nullopt;
  Value value = make_value(type);
  const std::size_t bytes = made->workspace(sizes->batch);
  const Value space = make_value({DType::u8, false, {}, Shape::of(static_cast<std::int64_t>(bytes))});
  made->run(sizes->batch, operands[0].data(), operands[1].data(), value.data(), {space.as<std::byte>(), bytes});
  return value;
}

}  // namespace

Value execute_convolution(Op op, const Attributes& attributes, const Type& type, std::span<const Value> operands,
                          Loc loc) {
  if (const auto value = by_library(op, attributes.as<Convolution>(), type, operands[0], operands[1])) return *value;
  if (const DType computed = computed_in(operands[0].type.dtype); computed != operands[0].type.dtype) {
    Type wide = type;
    wide.dtype = computed;
    const Value converted[] = {convert(operands[0], computed), convert(operands[1], computed)};
    return convert(execute_convolution(op, attributes, wide, converted, loc), type.dtype);
  }
  const Builder build(loc, 0, 0);
  std::vector<Tensor> inputs{build.input(0, operands[0].type), build.input(1, operands[1].type)};
  const Tensor whole = build.make(op, inputs, attributes, type);
  std::vector<Tensor> outputs{convolution_by_products(*whole.node(), inputs[0], inputs[1])};
  return run(make_graph(std::move(inputs), std::move(outputs), {}), operands);
}

}  // namespace weft::eager
