#include "trace/pieces.hpp"

#include <algorithm>

namespace weft::detail {

Piece cut_piece(const Trace& trace, std::vector<Tensor> roots, std::span<const Tensor> effects,
                const PlacesByHandle& known) {
  std::vector<Tensor> nodes, inputs, checks(effects.begin(), effects.end());
  std::vector<std::pair<std::uint32_t, Tensor>> read;  // of what is known
  NodeNumbers numbers;                                 // of nodes and inputs that were met
  std::unordered_map<std::uint64_t, Tensor> mapped;    // what is known, by handle
  std::vector<Node*> stack;
  const auto visit = [&](const Tensor& value) {
    if (const auto found = known.find(value.word()); found != known.end()) {
      if (mapped.try_emplace(value.word()).second) read.emplace_back(found->second, value);
    } else if (numbers.set(value.node(), 0)) {
      stack.push_back(value.node());
    }
  };
  for (const Tensor& root : roots) visit(root);
  // A check is never known: it is a root by itself.
  for (const Tensor& check : checks)
    if (numbers.set(check.node(), 0)) stack.push_back(check.node());
  while (!stack.empty()) {
    Node* const node = stack.back();
    stack.pop_back();
    (node->op == Op::input ? inputs : nodes).emplace_back(node);
    for (const Tensor& operand : node->inputs()) visit(operand);
  }
  const Node* const generator = trace.generator_input.node();
  const auto slot_of = [&](const Tensor& input) {
    return input.node() == generator ? generator_leaf
                                     : static_cast<std::uint32_t>(input.node()->attributes<Parameter>().slot);
  };
  std::ranges::sort(inputs, {}, slot_of);
  std::ranges::sort(read, {}, [](const auto& each) { return each.first; });
  std::ranges::sort(nodes, {}, [](const Tensor& value) { return value.node()->sequence; });

  Piece piece;
  std::vector<Tensor> made, made_inputs, made_effects;
  const auto add_input = [&](const Tensor& original, std::uint32_t leaf) {
    piece.inputs.push_back(leaf);
    made_inputs.push_back(Builder(*original.node()).input(made_inputs.size(), type_of(original)));
    return made_inputs.back();
  };
  for (const Tensor& input : inputs) {
    numbers.set(input.node(), static_cast<std::uint32_t>(made.size()));
    made.push_back(add_input(input, slot_of(input)));
  }
  for (const auto& [index, value] : read) {
    if (value.node()->op != Op::constant) {
      mapped[value.word()] = add_input(value, kept_leaf(index));
      continue;
    }
    // A number that differs from call to call; a constant may have it at all places of a shape.
    const Builder build(*value.node());
    Type type = type_of(value);
    type.shape = {};
    piece.inputs.push_back(kept_leaf(index));
    made_inputs.push_back(build.input(made_inputs.size(), type));
    mapped[value.word()] = build.expand(made_inputs.back(), type_of(value).shape);
  }
  const auto map = [&](const Tensor& value) -> Tensor {
    if (const auto found = mapped.find(value.word()); found != mapped.end()) return found->second;
    return Tensor(made[numbers.find(value.node())].node(), value.output());
  };
  std::vector<Tensor> operands;
  for (const Tensor& value : nodes) {
    operands.clear();
    for (const Tensor& operand : value.node()->inputs()) operands.push_back(map(operand));
    numbers.set(value.node(), static_cast<std::uint32_t>(made.size()));
    made.push_back(Builder::copy(*value.node(), operands));
    if (is_effect(*value.node())) made_effects.push_back(made.back());
  }
  for (Tensor& root : roots) root = map(root);
  piece.graph = make_graph(std::move(made_inputs), std::move(roots), std::move(made_effects));
  piece.graph.symbols = trace.dims.symbols;
  return piece;
}

}  // namespace weft::detail
