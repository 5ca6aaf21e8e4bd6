#include "passes/cse.hpp"

#include <unordered_map>

#include "ir/builder.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

bool is_mergeable(const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::leaf: return node.op == Op::constant || node.op == Op::iota;
    case OpKind::random:
    case OpKind::effect:
    case OpKind::identity:
    case OpKind::collective:
    case OpKind::region: return false;
    default: return true;
  }
}

// What a node computes, as words.
struct Key {
  std::vector<std::uint64_t> words;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (std::uint64_t word : key.words) hash = (hash ^ word ^ (word >> 29)) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
  }
};

Key key_of(const Node& node, std::span<const Tensor> operands) {
  Key key;
  key.words.reserve(operands.size() + node.type.shape.rank() + 6);
  const Type& type = node.type;
  key.words.push_back(static_cast<std::uint64_t>(node.op) | static_cast<std::uint64_t>(type.dtype) << 8 |
                      static_cast<std::uint64_t>(type.weak) << 16 | static_cast<std::uint64_t>(type.device.type) << 24 |
                      static_cast<std::uint64_t>(type.device.index) << 32 |
                      static_cast<std::uint64_t>(type.shape.rank()) << 40);
  for (Dim dim : type.shape) key.words.push_back(dim.word());
  if (info(node.op).kind != OpKind::leaf) key.words.push_back(node.recomputation);  // constants take no memory
  node.attributes().each_word([&](std::uint64_t word) { key.words.push_back(word); });
  for (const Tensor& operand : operands) key.words.push_back(operand.word());
  return key;
}

}  // namespace

Graph common_subexpressions(const Graph& graph, const PassContext& context) {
  std::unordered_map<Key, Tensor, KeyHash> first;
  const auto merge = [&](const Node& node, std::span<const Tensor> operands) -> Rewritten {
    if (!is_mergeable(node)) return {};
    Tensor& seen = first[key_of(node, operands)];
    if (!seen.defined()) {
      bool same_operands = true;
      for (std::size_t i = 0; i < operands.size(); ++i) same_operands &= operands[i].same(node.input(i));
      seen = same_operands ? Tensor(const_cast<Node*>(&node)) : Builder::copy(node, operands);
    }
    return seen;
  };
  return rewrite(in_bodies(graph, common_subexpressions, context), merge);
}

}  // namespace weft
