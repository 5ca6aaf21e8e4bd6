#include "ir/graph.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "base/word_hash.hpp"
#include "ir/graph_copy.hpp"
#include "ir/remade.hpp"

namespace weft {

std::uint64_t digest_of(const Node& node) {
  std::uint64_t digest = hash_of_no_words;
  const auto add = [&](std::uint64_t word) { digest = with_word(digest, word); };
  add(static_cast<std::uint64_t>(node.op));
  for (unsigned output = 0; output < node.output_count; ++output) {
    const Type& type = output == 0 ? node.type : node.more->types[output - 1];
    add(static_cast<std::uint64_t>(type.dtype));
    for (const Dim size : type.shape) add(size.word());
  }
  add(node.recomputation);
  node.attributes().each_word(add);
  if (!node.severed)
    for (const Tensor& operand : node.inputs()) add(operand.word());
  for (const auto& body : node.bodies()) add(reinterpret_cast<std::uintptr_t>(body.get()));
  return digest;
}

void Graph::number_nodes() {
  numbers = {};
  numbers.reserve(nodes.size());
  digests.clear();
  for (const Tensor& value : std::exchange(nodes, {})) add(value);
}
void Graph::add(Tensor value) {
  numbers.set(value.node(), static_cast<std::uint32_t>(nodes.size()));
#ifndef NDEBUG
  digests.push_back(digest_of(*value.node()));
#endif
  nodes.push_back(std::move(value));
}

bool is_effect(const Node& node) {
  return is_effect(node.op) ||
         std::ranges::any_of(node.bodies(), [](const auto& body) { return !body->effects.empty(); });
}

bool is_collective(const Node& node) {
  return info(node.op).kind == OpKind::collective || std::ranges::any_of(node.bodies(), [](const auto& body) {
           return std::ranges::any_of(body->nodes, [](const Tensor& value) { return is_collective(*value.node()); });
         });
}

Graph make_graph(std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<Tensor> effects) {
  Graph graph;
  std::vector<std::pair<std::uint64_t, Node*>> found;  // by sequence, once it is sorted
  auto visit = [&](const Tensor& value) {
    if (graph.numbers.set(value.node(), 0)) found.emplace_back(value.node()->sequence, value.node());
  };
  for (const auto* roots : {&inputs, &outputs, &effects})
    for (const Tensor& root : *roots) visit(root);
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const Tensor& operand : found[i].second->inputs()) visit(operand);
  std::ranges::sort(found, std::less(), &std::pair<std::uint64_t, Node*>::first);
  graph.nodes.reserve(found.size());
  for (const auto& [sequence, node] : found) graph.add(Tensor(node));
  graph.inputs = std::move(inputs);
  graph.outputs = std::move(outputs);
  graph.effects = std::move(effects);
  return graph;
}

Graph without_data(const Graph& graph) {
  Graph copy;
  const GraphCopy copies(graph, [&](const Node& node, std::span<const Tensor> operands) {
    const Tensor made = Builder::copy(node, operands);
    made.node()->sequence = node.sequence;
    if (Storage*& storage = made.node()->storage) release(std::exchange(storage, nullptr));
    copy.add(made);
    return results_of(made);
  });
  copy.inputs = copies.of(graph.inputs);
  copy.outputs = copies.of(graph.outputs);
  copy.effects = copies.of(graph.effects);
  copy.symbols = graph.symbols;
  copy.conditions = graph.conditions;
  return copy;
}

Graph rewrite(const Graph& graph, const Replace& replace) {
  // What comes before the first replacement stays, and most passes replace nothing.
  std::size_t first = 0;
  Rewritten replaced;
  const auto stays = [&] { return !replaced.result.defined() && replaced.results.empty(); };
  for (; first < graph.nodes.size(); ++first) {
    const Node& node = *graph.nodes[first].node();
    replaced = replace(node, node.inputs());
    if (!stays()) break;
  }
  if (first == graph.nodes.size()) return graph;
  std::vector<Tensor> mapped, operands, effects;  // `mapped`: the results of all nodes from the first on
  std::vector<std::size_t> place(graph.nodes.size() - first);
  mapped.reserve(place.size());
  const auto map = [&](const Tensor& value) -> const Tensor& {
    const std::size_t number = graph.number(value);
    return number < first ? value : mapped[place[number - first] + value.output()];
  };
  std::unordered_set<const Node*> listed;
  const auto add_effect = [&](const Tensor& effect) {
    if (listed.insert(effect.node()).second) effects.push_back(effect);
  };
  for (std::size_t i = 0; i < first; ++i)
    if (is_effect(*graph.nodes[i].node())) add_effect(graph.nodes[i]);
  bool order_moves = false;
  std::unordered_map<const Node*, Tensor> moved;  // collectives, of which a rewrite may hold the old one
  for (std::size_t i = first; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    operands.clear();
    bool changed = false;
    for (const Tensor& operand : node.inputs()) {
      operands.push_back(map(operand));
      changed |= !operands.back().same(operand);
    }
    if (i > first) replaced = replace(node, operands);
    if (replaced.result.defined() && replaced.result.node() == &node) replaced = {};
    const bool effect = is_effect(node), collective = is_collective(node);
    // After a new node all later effects and collectives are new too: an old one would come before it.
    if (effect || collective) changed |= order_moves, order_moves |= changed || !stays();
    place[i - first] = mapped.size();
    if (!replaced.results.empty()) {
      WEFT_CHECK(replaced.results.size() == node.output_count, "a replacement has as many results as its node");
      std::ranges::move(replaced.results, std::back_inserter(mapped));
    } else {
      if (stays()) {
        replaced.result = changed ? Builder::copy(node, operands) : graph.nodes[i];
        if (changed && collective) moved.emplace(&node, replaced.result);
      } else if (const auto found = moved.find(replaced.result.node()); found != moved.end()) {
        replaced.result = Tensor(found->second.node(), replaced.result.output());
      }
      mapped.push_back(replaced.result);
      for (unsigned output = 1; output < node.output_count; ++output)
        mapped.emplace_back(replaced.result.node(), output);
    }
    if (!effect) continue;
    for (const Tensor& each : replaced.effects) add_effect(each);
    const Tensor& result = mapped[place[i - first]];
    if (replaced.effects.empty() && result.defined() && is_effect(*result.node())) add_effect(result);
  }
  std::vector<Tensor> inputs, outputs;
  for (const Tensor& input : graph.inputs) inputs.push_back(map(input));
  for (const Tensor& output : graph.outputs) outputs.push_back(map(output));
  return remade(graph, std::move(inputs), std::move(outputs), std::move(effects));
}

Graph with_inputs(const Graph& graph, std::span<const std::uint32_t> inputs, std::span<const Tensor> outputs) {
  Graph chosen = graph;
  chosen.outputs.assign(outputs.begin(), outputs.end());
  std::vector<Tensor> made(graph.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = *graph.inputs[inputs[i]].node();
    made[inputs[i]] = Builder(node).input(i, node.type);
  }
  Graph result = rewrite(chosen, [&](const Node& node, std::span<const Tensor>) -> Rewritten {
    return node.op == Op::input ? made[static_cast<std::size_t>(node.attributes<Parameter>().slot)] : Tensor();
  });
  std::vector<Tensor> kept;
  for (const std::uint32_t input : inputs) kept.push_back(made[input]);
  Graph made_over = make_graph(std::move(kept), std::move(result.outputs), std::move(result.effects));
  // Inputs come first, as in a trace.
  std::ranges::stable_partition(made_over.nodes, [](const Tensor& value) { return value.node()->op == Op::input; });
  made_over.number_nodes();
  return made_over;
}

DecidedSizes::DecidedSizes(const Graph& graph)
    : environment_{graph.symbols, graph.conditions},
      decided_(graph.conditions.size()),
      saved_(std::exchange(DimEnvironment::current(), &environment_)) {}
DecidedSizes::~DecidedSizes() { DimEnvironment::current() = saved_; }
void DecidedSizes::close() const {
  if (environment_.conditions.size() == decided_) return;
  const DimCondition& condition = environment_.conditions[decided_];
  WEFT_CHECK(false, "a pass compared sizes that nothing guards: ", dims::to_string(condition.left), " and ",
             dims::to_string(condition.right));
}

}  // namespace weft
