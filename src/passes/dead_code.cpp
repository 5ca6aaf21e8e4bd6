#include "passes/dead_code.hpp"

#include <unordered_set>

#include "base/word_hash.hpp"
#include "ir/node_key.hpp"
#include "ir/remade.hpp"
#include "passes/fold.hpp"
#include "passes/regions.hpp"

namespace weft {

Graph dead_code(const Graph& graph, const PassContext& context) {
  Graph inner = in_bodies(graph, dead_code, context);
  std::vector<Tensor> effects;
  std::unordered_set<std::vector<std::uint64_t>, WordsHash> checked;  // a second check says nothing new
  for (const Tensor& effect : inner.effects) {
    const Node& node = *effect.node();
    if (!is_effect(node)) continue;  // what stood here is done
    bool holds = node.op == Op::check && is_uniform(node.input(0)) &&
                 node.input(0).node()->attributes<Constant>().as_integer() != 0;
    if (!holds && node.op == Op::check) holds = !checked.insert(key_of(node, node.inputs())).second;
    if (!holds) effects.push_back(effect);
  }
  return remade(graph, inner.inputs, inner.outputs, std::move(effects));
}

}  // namespace weft
