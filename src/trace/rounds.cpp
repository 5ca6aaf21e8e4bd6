#include "trace/rounds.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/graph_copy.hpp"

namespace weft::detail {
namespace {

class Rounds {
 public:
  Rounds(const TraceResult& segment, bool outcome) : segment_(segment), outcome_(outcome) {}

  std::optional<TraceResult> make() {
    const Graph& graph = segment_.graph;
    const Source decided = segment_.decision->value;
    if (segment_.decision->asked != Asked::boolean || decided.kind != Source::Kind::computed ||
        type_of(graph.outputs[decided.index]).dtype != DType::boolean || !graph.effects.empty())
      return {};
    if (std::ranges::any_of(graph.nodes,
                            [](const Tensor& value) { return value.node()->type.device.type != Device::Type::cpu; }))
      return {};
    if (!find_carries()) return {};

    TraceResult made;
    made.graph = loop(made.inputs);
    made.graph.symbols = graph.symbols;
    made.graph.conditions = graph.conditions;
    made.decision = segment_.decision;
    made.decision->value = {Source::Kind::computed, 1};
    for (std::size_t j = 0; j < segment_.kept.size(); ++j) {
      const auto carry = std::ranges::find(carries_, j);
      made.kept.push_back(carry == carries_.end() ? segment_.kept[j]
                                                  : Source{Source::Kind::computed,
                                                           static_cast<std::uint32_t>(2 + (carry - carries_.begin()))});
    }
    return made;
  }

 private:
  bool stays(std::size_t j) const {
    const Source source = segment_.kept[j];
    return source.kind == Source::Kind::argument && source.index == kept_leaf(j);
  }
  // The type of a kept value after the segment; null where it is not known, as of one that moves and is never computed.
  const Type* type_after(std::size_t j) const {
    for (std::size_t steps = 0; steps <= segment_.kept.size(); ++steps) {
      const Source source = segment_.kept[j];
      if (source.kind == Source::Kind::computed) return &type_of(segment_.graph.outputs[source.index]);
      if (!is_kept(source.index)) return nullptr;
      j = kept_index(source.index);
      if (j >= segment_.kept.size()) return nullptr;
    }
    return nullptr;
  }
  // The values that a round changes, whose types must stay.
  bool find_carries() {
    for (std::size_t j = 0; j < segment_.kept.size(); ++j)
      if (!stays(j)) {
        if (!type_after(j)) return false;
        carries_.push_back(j);
      }
    for (std::size_t i = 0; i < segment_.inputs.size(); ++i) {
      const std::uint32_t leaf = segment_.inputs[i];
      if (!is_kept(leaf)) continue;
      const std::size_t j = kept_index(leaf);
      if (j >= segment_.kept.size()) return false;
      if (!stays(j) && !type_of(segment_.graph.inputs[i]).same(*type_after(j))) return false;
    }
    return true;
  }

  Graph loop(std::vector<std::uint32_t>& leaves) {
    const Graph& graph = segment_.graph;
    const Node& asked = *graph.outputs[segment_.decision->value.index].node();
    const Builder build(segment_.decision->loc, asked.scope, asked.trace);
    const Type number{DType::i64, false, {}, {}}, flag{DType::boolean, false, {}, {}};

    // The operands of the loop: round, outcome, what is kept, and whether another round comes; then what stays, then
    // how many rounds there may be.
    std::vector<Tensor> inputs, operands{build.constant(Constant::integer(0), number),
                                         build.constant(Constant::integer(outcome_ ? 1 : 0), decision_type())};
    const auto input = [&](std::uint32_t leaf, const Type& type) {
      leaves.push_back(leaf);
      inputs.push_back(build.input(inputs.size(), type));
      operands.push_back(inputs.back());
    };
    for (const std::size_t j : carries_) input(kept_leaf(j), *type_after(j));
    operands.push_back(build.constant(Constant::integer(1), flag));
    for (std::size_t i = 0; i < segment_.inputs.size(); ++i)
      if (!is_carry(segment_.inputs[i])) input(segment_.inputs[i], type_of(graph.inputs[i]));
    input(rounds_leaf, number);

    std::vector<Type> types;
    for (std::size_t i = 0; i < 3 + carries_.size(); ++i) types.push_back(type_of(operands[i]));
    const auto places = [&] {
      std::vector<Tensor> made;
      for (const Tensor& operand : operands) made.push_back(build.input(made.size(), type_of(operand)));
      return made;
    };
    std::vector<Tensor> asked_places = places();
    const Tensor again = asked_places[2 + carries_.size()];
    Graph condition = make_graph(std::move(asked_places), {again}, {}), body = round(build, places(), flag);
    const Tensor node = make_node(Op::while_loop, operands, While{static_cast<std::int64_t>(types.size()), 0, {}},
                                  types[0], segment_.decision->loc);
    set_more_results(*node.node(), std::span(types).subspan(1));
    node.node()->trace = asked.trace;
    node.node()->make_more().bodies = {std::make_shared<const Graph>(std::move(condition)),
                                       std::make_shared<const Graph>(std::move(body))};
    std::vector<Tensor> results = results_of(node);
    results.pop_back();  // whether another round comes
    return make_graph(std::move(inputs), std::move(results), {});
  }
  const Type& decision_type() const { return type_of(segment_.graph.outputs[segment_.decision->value.index]); }
  bool is_carry(std::uint32_t leaf) const {
    return is_kept(leaf) && std::ranges::find(carries_, kept_index(leaf)) != carries_.end();
  }

  // One round: the segment's nodes over the places.
  Graph round(const Builder& build, std::vector<Tensor> places, const Type& flag) const {
    const Graph& graph = segment_.graph;
    std::vector<Tensor> inputs;
    std::size_t next = 3 + carries_.size();
    for (const std::uint32_t leaf : segment_.inputs) {
      const std::size_t place =
          is_carry(leaf)
              ? 2 + static_cast<std::size_t>(std::ranges::find(carries_, kept_index(leaf)) - carries_.begin())
              : next++;
      inputs.push_back(places[place]);
    }
    const GraphCopy copies(graph, [&](const Node& node, std::span<const Tensor> operands) {
      const bool is_input = node.op == Op::input;
      return results_of(is_input ? inputs[static_cast<std::size_t>(node.attributes<Parameter>().slot)]
                                 : Builder::copy(node, operands));
    });
    const Tensor one = build.constant(Constant::integer(1), type_of(places[0]));
    std::vector<Tensor> outputs{build.add(places[0], one), copies.of(graph.outputs[segment_.decision->value.index])};
    for (const std::size_t j : carries_) {
      const Source source = segment_.kept[j];
      if (source.kind == Source::Kind::computed) {
        outputs.push_back(copies.of(graph.outputs[source.index]));
        continue;
      }
      // A value that moves to another place of the list: it is one that a round changes, see type_after.
      const auto carry = std::ranges::find(carries_, kept_index(source.index));
      outputs.push_back(places[2 + static_cast<std::size_t>(carry - carries_.begin())]);
    }
    // The outcome is the one after which another round comes, and one is left.
    const Tensor decided = build.reshape(outputs[1], {});
    const Tensor same = outcome_ ? decided : build.make(Op::bitwise_not, {decided}, {}, {});
    const Tensor left = build.make(Op::less, {outputs[0], places.back()}, {}, {});
    outputs.push_back(build.make(Op::bitwise_and, {left, same}, {}, flag));
    return make_graph(std::move(places), std::move(outputs), {});
  }
  const TraceResult& segment_;
  const bool outcome_;
  std::vector<std::size_t> carries_;  // of what is kept, by index: what a round changes
};

// Two segments side by side, from their results to what they read.
class RoundComparison {
 public:
  RoundComparison(const TraceResult& first, const TraceResult& round) : first_(first), round_(round) {}

  std::optional<std::vector<FirstKept>> make() {
    if (!first_.decision || first_.decision->asked != round_.decision->asked ||
        first_.kept.size() != round_.kept.size() || !first_.graph.effects.empty() || !round_.graph.effects.empty())
      return {};
    given_.resize(round_.kept.size());
    if (!same(first_.decision->value, round_.decision->value)) return {};
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (!same(first_.kept[i], round_.kept[i])) return {};
    std::vector<FirstKept> all;
    for (std::optional<FirstKept>& each : given_) {
      if (!each) return {};
      all.push_back(std::move(*each));
    }
    return all;
  }

 private:
  bool same(const Source& first, const Source& round) {
    if (first.kind != round.kind) return false;
    return first.kind == Source::Kind::computed
               ? same(first_.graph.outputs[first.index], round_.graph.outputs[round.index])
               : same_leaf(first.index, round.index);
  }
  bool same_leaf(std::uint32_t first, std::uint32_t round) {
    return is_kept(round) ? give(round, {first, {}}) : first == round;
  }
  bool give(std::uint32_t round, FirstKept value) {
    std::optional<FirstKept>& given = given_[kept_index(round)];
    if (!given)
      given = std::move(value);
    else
      return given->leaf == value.leaf && given->constant.word() == value.constant.word();
    return true;
  }
  static std::uint32_t leaf_of(const TraceResult& segment, const Tensor& input) {
    return segment.inputs[static_cast<std::size_t>(
        std::ranges::find(segment.graph.inputs, input.word(), &Tensor::word) - segment.graph.inputs.begin())];
  }
  bool same(const Tensor& first, const Tensor& round) {
    if (!type_of(first).same(type_of(round)) || first.output() != round.output()) return false;
    const auto [found, fresh] = matched_.try_emplace(round.node(), first.node());
    if (!fresh) return found->second == first.node();
    const Node &a = *first.node(), &b = *round.node();
    if (b.op == Op::input) {
      const std::uint32_t leaf = leaf_of(round_, round);
      if (a.op == Op::input) return same_leaf(leaf_of(first_, first), leaf);
      return a.op == Op::constant && is_kept(leaf) && give(leaf, {no_leaf, first});
    }
    const auto same_body = [](const auto& x, const auto& y) { return x == y; };
    if (a.op != b.op || a.attributes() != b.attributes() || a.operand_count != b.operand_count ||
        a.definition != b.definition || a.callee() != b.callee() ||
        (!a.callee() && !std::ranges::equal(a.bodies(), b.bodies(), same_body)))
      return false;
    for (std::size_t i = 0; i < a.operand_count; ++i)
      if (!same(a.input(i), b.input(i))) return false;
    return true;
  }

  const TraceResult &first_, &round_;
  std::vector<std::optional<FirstKept>> given_;           // by the place in what a round keeps
  std::unordered_map<const Node*, const Node*> matched_;  // nodes of the round
};

}  // namespace

std::optional<std::vector<FirstKept>> kept_before_first(const TraceResult& first, const TraceResult& round) {
  return RoundComparison(first, round).make();
}

std::optional<TraceResult> rounds_of(const TraceResult& segment, bool outcome) {
  return Rounds(segment, outcome).make();
}

}  // namespace weft::detail
