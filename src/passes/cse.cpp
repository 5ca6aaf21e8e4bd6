#include "passes/cse.hpp"

#include <string_view>
#include <unordered_map>

#include "base/word_hash.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "ir/node_key.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

bool is_mergeable(const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::leaf: return node.op == Op::constant || node.op == Op::iota;
    case OpKind::random:
    case OpKind::effect: return false;
    // Attention by hand whose derivative is that of the call is recorded twice (pipeline.hpp). Its attributes say all
    // that its body does (ir/composites.hpp).
    case OpKind::region:
      return node.op == Op::call && &node.attributes().type() == &attribute_type<AttentionCall> &&
             std::string_view(name_of(node)) == "scaled_dot_product_attention";
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
