#include "passes/cse.hpp"

#include <unordered_map>

#include "base/word_hash.hpp"
#include "ir/builder.hpp"
#include "ir/node_key.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

bool is_mergeable(const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::leaf: return node.op == Op::constant || node.op == Op::iota;
    case OpKind::random:
    case OpKind::effect:
    case OpKind::region: return false;
    case OpKind::identity: return node.op == Op::transfer;  // a value is copied to a device once
    default: return true;
  }
}

}  // namespace

Graph common_subexpressions(const Graph& graph, const PassContext& context) {
  std::unordered_map<std::vector<std::uint64_t>, Tensor, WordsHash> first;
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
