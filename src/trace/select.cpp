#include "trace/select.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/word_hash.hpp"
#include "ir/any_node.hpp"
#include "ir/builder.hpp"
#include "ir/node_key.hpp"
#include "trace/segments.hpp"
#include "trace/symbols.hpp"

namespace weft::detail {
namespace {

// What the side that is not taken may cost, in additions of an element: less than the decision. On the host that costs
// a segment's run, which is measured in docs/performance.md; on a device the host waits for it, some microseconds.
constexpr double host_limit = 16384, device_limit = 1e6;

// Whether a side may hold such an operation: it has no effect, and rounds alike whatever it is compiled with.
bool is_allowed(const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::contraction:
    case OpKind::convolution:
    case OpKind::order:
    case OpKind::factorization:
    case OpKind::random:
    case OpKind::collective:
    case OpKind::effect: return false;
    case OpKind::identity: return node.op != Op::transfer;
    case OpKind::region:
      return node.op == Op::call && std::ranges::all_of(node.bodies(), [](const auto& body) {
               return std::ranges::all_of(body->nodes, [](const Tensor& value) { return is_allowed(*value.node()); });
             });
    default: return true;
  }
}
bool is_product(const Node& node) {
  return info(node.op).kind == OpKind::contraction || info(node.op).kind == OpKind::convolution;
}

bool same_numbers(const TraceResult& a, const TraceResult& b) {
  return std::ranges::equal(a.numbers, b.numbers, [](const StateNumbers& x, const StateNumbers& y) {
    return x.leaf == y.leaf && x.bytes == y.bytes;
  });
}

// One selected segment, from those of the decision and of its sides.
class Selection {
 public:
  Selection(CallContext call, const Specialization& of, std::span<const Branch* const> way)
      : call_(call), of_(of), way_(way), decides_(way.back()->segment->traced) {}

  std::optional<TraceResult> make(const TraceResult& if_true, const TraceResult& if_false) {
    if (decides_.decision->asked != Asked::boolean || !fits(if_true) || !fits(if_false) ||
        if_true.results.size() != if_false.results.size() || if_true.plain_results != if_false.plain_results ||
        !same_numbers(if_true, if_false))
      return {};
    for (const DimSymbol& symbol : decides_.graph.symbols) hints_.push_back(symbol.hint);
    std::vector<Tensor> before;
    for (std::size_t i = 0; i < decides_.inputs.size(); ++i)
      before.push_back(input(decides_.inputs[i], type_of(decides_.graph.inputs[i])));
    const std::vector<Tensor> nodes = copy(decides_.graph, before, nullptr);
    for (const Tensor& output : decides_.graph.outputs) decided_.push_back(mapped(decides_.graph, nodes, output));
    for (const Tensor& effect : decides_.graph.effects) effects_.push_back(mapped(decides_.graph, nodes, effect));
    const std::vector<Tensor> side_true = side(if_true, &only_true_), side_false = side(if_false, &only_false_);
    if (!find_condition()) return {};

    TraceResult made;
    bool fine = true;
    const auto choose = [&](const Source& a, const Source& b) {
      const std::optional<Source> source = select(resolve(a, side_true), resolve(b, side_false));
      fine = fine && source;
      return source.value_or(Source());
    };
    for (std::size_t i = 0; i < if_true.results.size(); ++i)
      made.results.push_back(choose(if_true.results[i], if_false.results[i]));
    // State that one side leaves alone keeps its argument there.
    const auto source_in = [](const TraceResult& side, std::uint32_t leaf) {
      const auto found = std::ranges::find(side.states, leaf, &StateTensor::leaf);
      return found == side.states.end() ? Source{Source::Kind::argument, leaf} : found->source;
    };
    for (const TraceResult* each : {&if_true, &if_false})
      for (const StateTensor& state : each->states)
        if (std::ranges::find(made.states, state.leaf, &StateTensor::leaf) == made.states.end())
          made.states.push_back({state.leaf, choose(source_in(if_true, state.leaf), source_in(if_false, state.leaf))});
    const SideValue drawn = resolve(if_true.generator, side_true);
    if (!fine || !drawn.same(resolve(if_false.generator, side_false))) return {};
    made.generator = source_of(drawn);
    if (std::max(cost_of(only_true_), cost_of(only_false_)) + selected_ > limit()) return {};
    // A product that others read as well is computed as it would be for the decision alone.
    if (any_node(decides_.graph, is_product))
      for (const Tensor& value : decided_) add_output(value);

    made.graph = make_graph(std::move(inputs_), std::move(outputs_), std::move(effects_));
    made.graph.symbols = decides_.graph.symbols;
    made.graph.conditions = decides_.graph.conditions;
    made.inputs = std::move(leaves_);
    made.plain_results = if_true.plain_results;
    made.numbers = if_true.numbers;
    made.prototype = if_true.prototype;
    return made;
  }

 private:
  // A value of the sides, as the selected segment sees it.
  struct SideValue {
    Source::Kind kind = Source::Kind::undefined;
    Tensor value;            // computed
    std::uint32_t leaf = 0;  // argument
    bool same(const SideValue& other) const {
      return kind == other.kind && (kind == Source::Kind::computed ? value.same(other.value) : leaf == other.leaf);
    }
  };
  using Costs = std::vector<std::pair<const Node*, double>>;  // of nodes that only one side computes

  static bool fits(const TraceResult& side) {
    return !side.decision && side.graph.effects.empty() &&
           std::ranges::all_of(side.graph.nodes, [](const Tensor& value) { return is_allowed(*value.node()); });
  }
  bool on_device() const { return condition_.node()->type.device.type != Device::Type::cpu; }
  double limit() const { return on_device() ? device_limit : host_limit; }

  double elements(const Tensor& value) const {
    return static_cast<double>(dims::evaluate(type_of(value).shape.element_count(), hints_));
  }
  // Of a node without its operands, in additions of an element.
  double cost_of(const Node& node) const {
    const Tensor value(const_cast<Node*>(&node));
    switch (info(node.op).kind) {
      case OpKind::leaf:
      case OpKind::view:
      case OpKind::identity: return 0;
      case OpKind::region: {
        double sum = 0;
        for (const auto& body : node.bodies())
          for (const Tensor& each : body->nodes) sum += cost_of(*each.node());
        return sum;
      }
      case OpKind::pointwise: return elements(value) * info(node.op).cost;
      default: {
        double most = elements(value);
        for (const Tensor& operand : node.inputs()) most = std::max(most, elements(operand));
        return most;
      }
    }
  }
  static double cost_of(const Costs& costs) {
    double sum = 0;
    for (const auto& [node, cost] : costs) sum += cost;
    return sum;
  }

  static Tensor mapped(const Graph& graph, const std::vector<Tensor>& made, const Tensor& value) {
    const Tensor& node = made[graph.number(value)];
    return value.node()->op == Op::input ? node : Tensor(node.node(), value.output());
  }

  using Key = std::vector<std::uint64_t>;
  // What a node computes; empty where it stands for itself.
  static Key key_of(const Node& node, std::span<const Tensor> operands) {
    const OpKind kind = info(node.op).kind;
    if (node.op == Op::data || kind == OpKind::random || kind == OpKind::collective || kind == OpKind::effect)
      return {};
    Key key = weft::key_of(node, operands);
    for (const auto& body : node.bodies()) {
      const Digest of_body = digest(structure_text(*body));
      key.insert(key.end(), {of_body.low, of_body.high});
    }
    return key;
  }
  // The nodes of a graph over these inputs, each once: what the selected segment computes already is that. `costs`: of
  // a side.
  std::vector<Tensor> copy(const Graph& graph, std::span<const Tensor> inputs, Costs* costs) {
    std::vector<Tensor> made(graph.nodes.size()), operands;
    for (std::size_t i = 0; i < inputs.size(); ++i) made[graph.number(graph.inputs[i])] = inputs[i];
    for (const Tensor& value : graph.nodes) {
      const Node& node = *value.node();
      if (node.op == Op::input) continue;
      operands.clear();
      for (const Tensor& operand : node.inputs()) operands.push_back(mapped(graph, made, operand));
      Tensor& place = made[graph.number(value)];
      const Key key = key_of(node, operands);
      if (const auto found = computed_.find(key); !key.empty() && found != computed_.end()) {
        place = found->second;
        if (costs == &only_false_)
          std::erase_if(only_true_, [&](const auto& each) { return each.first == place.node(); });
        continue;
      }
      place = Builder::copy(node, operands);
      if (!key.empty()) computed_.emplace(key, place);
      if (costs) costs->emplace_back(place.node(), cost_of(node));
    }
    return made;
  }
  // The outputs of a side.
  std::vector<Tensor> side(const TraceResult& traced, Costs* costs) {
    std::vector<Tensor> given, outputs;
    for (std::size_t i = 0; i < traced.inputs.size(); ++i) {
      const SideValue each = resolve({Source::Kind::argument, traced.inputs[i]}, {});
      given.push_back(each.kind == Source::Kind::computed ? each.value
                                                          : input(each.leaf, type_of(traced.graph.inputs[i])));
    }
    const std::vector<Tensor> nodes = copy(traced.graph, given, costs);
    for (const Tensor& output : traced.graph.outputs) outputs.push_back(mapped(traced.graph, nodes, output));
    return outputs;
  }

  Tensor input(std::uint32_t leaf, const Type& type) {
    const auto found = std::ranges::find(leaves_, leaf);
    if (found != leaves_.end()) return inputs_[static_cast<std::size_t>(found - leaves_.begin())];
    leaves_.push_back(leaf);
    inputs_.push_back(Builder(decides_.decision->loc, 0, 0).input(inputs_.size(), type));
    return inputs_.back();
  }
  SideValue of_decision(const Source& source) const {
    if (source.kind == Source::Kind::computed) return {source.kind, decided_[source.index], 0};
    return {source.kind, {}, source.index};
  }
  // What a side calls by what the decision kept.
  SideValue resolve(const Source& source, const std::vector<Tensor>& outputs) const {
    if (source.kind == Source::Kind::computed) return {source.kind, outputs[source.index], 0};
    if (source.kind == Source::Kind::argument && is_kept(source.index))
      return of_decision(decides_.kept[kept_index(source.index)]);
    return {source.kind, {}, source.index};
  }
  std::uint32_t add_output(const Tensor& value) {
    const auto found = std::ranges::find_if(outputs_, [&](const Tensor& each) { return each.same(value); });
    if (found != outputs_.end()) return static_cast<std::uint32_t>(found - outputs_.begin());
    outputs_.push_back(value);
    return static_cast<std::uint32_t>(outputs_.size() - 1);
  }
  Source source_of(const SideValue& given) {
    if (given.kind == Source::Kind::computed) {
      if (given.value.node()->op != Op::input) return {given.kind, add_output(given.value)};
      return {Source::Kind::argument,
              leaves_[static_cast<std::size_t>(given.value.node()->attributes<Parameter>().slot)]};
    }
    return {given.kind, given.leaf};
  }

  // The type of an argument or of a value that a segment before has kept, where it is known.
  std::optional<Type> type_of_leaf(std::uint32_t leaf) const {
    if (const auto found = std::ranges::find(leaves_, leaf); found != leaves_.end())
      return type_of(inputs_[static_cast<std::size_t>(found - leaves_.begin())]);
    for (std::size_t i = way_.size() - 1; is_kept(leaf); --i) {
      if (i == 0) return {};
      const Segment& segment = *way_[i - 1]->segment;
      const Source source = segment.traced.kept[kept_index(leaf)];
      if (source.kind == Source::Kind::computed) return segment.output_types[source.index];
      leaf = source.index;
    }
    const LeafList& arguments = call_.scratch.arguments;
    if (leaf >= arguments.leaves.size() || !arguments.leaves[leaf].tensor().defined()) return {};
    Type type = type_of(arguments.leaves[leaf].tensor());
    symbolize(type, call_.layout(), leaf, of_.guards.symbols, [&](std::size_t number) {
      return dims::symbol(static_cast<int>(number), of_.guards.symbols[number].lower);
    });
    return type;
  }
  // The value of it as an operand.
  Tensor operand(const SideValue& given) {
    if (given.kind == Source::Kind::computed) return given.value;
    const std::optional<Type> type = type_of_leaf(given.leaf);
    return type ? input(given.leaf, *type) : Tensor();
  }

  // The value that was asked for, as a bool of no axes.
  bool find_condition() {
    const Tensor asked = operand(of_decision(decides_.decision->value));
    if (!asked.defined()) return false;
    const Type& type = type_of(asked);
    if (!type.shape.element_count().same(Dim(1))) return false;
    const Builder build(decides_.decision->loc, 0, asked.node()->trace);
    condition_ = build.reshape(asked, {});
    if (type.dtype != DType::boolean)
      condition_ =
          build.make(Op::not_equal,
                     {condition_, build.constant(Constant::integer(0), Type{type.dtype, type.weak, type.device, {}})});
    return true;
  }
  std::optional<Source> select(const SideValue& if_true, const SideValue& if_false) {
    if (if_true.kind == Source::Kind::undefined || if_false.kind == Source::Kind::undefined)
      return if_true.kind == if_false.kind ? std::optional(Source()) : std::nullopt;
    if (if_true.same(if_false)) return source_of(if_true);
    const Tensor a = operand(if_true), b = operand(if_false);
    if (!a.defined() || !b.defined()) return {};
    if (a.same(b)) return source_of({Source::Kind::computed, a, 0});
    const Type& type = type_of(a);
    if (!type.same(type_of(b)) || type.device != condition_.node()->type.device) return {};
    const Builder build(decides_.decision->loc, 0, condition_.node()->trace);
    selected_ += elements(a);
    return Source{Source::Kind::computed,
                  add_output(build.make(Op::where, {build.expand(condition_, type.shape), a, b}))};
  }

  CallContext call_;
  const Specialization& of_;
  std::span<const Branch* const> way_;
  const TraceResult& decides_;
  std::vector<std::int64_t> hints_;
  std::vector<std::uint32_t> leaves_;  // of the inputs
  std::vector<Tensor> inputs_, outputs_, effects_;
  std::vector<Tensor> decided_;  // outputs of the segment that decides
  std::unordered_map<Key, Tensor, WordsHash> computed_;
  Costs only_true_, only_false_;
  double selected_ = 0;  // elements
  Tensor condition_;
};

// What follows an outcome, where that leads to results without a further decision.
struct Side {
  const Branch* branch = nullptr;  // null: it does not
  const TraceResult* traced = nullptr;
};
// What calls take there, or will take when it is compiled.
const Branch* planned(const Branch& at, const Guards& guards, const Words& words) {
  const Branch* each = at.selected.load(std::memory_order_relaxed);
  while (each && !each->holds(guards, words)) each = each->next;
  return each;
}
Side side_of(const Branch* branch, const Guards& guards, const Words& words) {
  if (branch && branch->segment->traced.decision) branch = planned(*branch, guards, words);
  return branch ? Side{branch, &branch->segment->traced} : Side();
}

}  // namespace

void add_selected(CallContext call, const Specialization& to, Backend backend, const std::shared_ptr<KernelJob>& job) {
  const std::span<const Branch* const> path = call.scratch.path;
  const Words& words = call.scratch.words;
  std::deque<TraceResult> made;  // of this call; the last is compiled
  Branch* outermost = nullptr;
  const Branch* decides = nullptr;
  Side below{path.back(), &path.back()->segment->traced};
  for (std::size_t i = path.size() - 1; i-- > 0;) {
    const Branch& at = *path[i];
    if (const Branch* const selected = planned(at, to.guards, words)) {
      below = {selected, &selected->segment->traced};
      continue;
    }
    const bool outcome = path[i + 1]->outcome != 0;
    const Side other = side_of(at.find(!outcome, to.guards, words), to.guards, words);
    if (!other.branch) break;
    std::optional<TraceResult> traced = Selection(call, to, path.first(i + 1))
                                            .make(*(outcome ? below : other).traced, *(outcome ? other : below).traced);
    if (!traced) break;
    Branch& branch = to.branches.emplace_back();
    branch.decides = decides = &at;
    for (const Side& side : {below, other})
      branch.conditions.insert(branch.conditions.end(), side.branch->conditions.begin(), side.branch->conditions.end());
    branch.sides[outcome] = below.branch;
    branch.sides[!outcome] = other.branch;
    outermost = &branch;
    below = {&branch, &made.emplace_back(std::move(*traced))};
  }
  if (!outermost) return;
  const Loc loc = decides->segment->traced.decision->loc;
  outermost->segment = add_results(call, to, std::move(made.back()), backend, job);
  if (!outermost->segment) return;
  outermost->next = decides->selected.load(std::memory_order_relaxed);
  decides->selected.store(outermost, std::memory_order_release);
  logging::write(logging::Channel::decisions, to_string(loc) + ": both sides will be computed, as they are cheap");
}

namespace {
// What one segment in the place of the way's last decision would be, or is. `made` keeps what was made for it.
const TraceResult* selected_of(CallContext call, const Specialization& of, std::vector<const Branch*>& way,
                               std::deque<TraceResult>& made) {
  constexpr std::size_t deepest = 16;
  const Branch& at = *way.back();
  const Words& words = call.scratch.words;
  if (const Branch* const selected = at.select(of.guards, words)) return &selected->segment->traced;
  const TraceResult* sides[2];
  for (const std::int64_t outcome : {0, 1}) {
    const Branch* const branch = at.find(outcome, of.guards, words);
    if (!branch || made.size() > deepest) return nullptr;
    sides[outcome] = &branch->segment->traced;
    if (!sides[outcome]->decision) continue;
    way.push_back(branch);
    sides[outcome] = way.size() > deepest ? nullptr : selected_of(call, of, way, made);
    way.pop_back();
    if (!sides[outcome]) return nullptr;
  }
  std::optional<TraceResult> traced = Selection(call, of, way).make(*sides[1], *sides[0]);
  return traced ? &made.emplace_back(std::move(*traced)) : nullptr;
}
}  // namespace

std::string select_text(CallContext call, const Specialization& of, std::span<const Branch* const> way) {
  if (of.resumable) return {};
  if (const Branch* const selected = way.back()->select(of.guards, call.scratch.words))
    return concat_text("both sides are computed, ",
                       counted(static_cast<std::int64_t>(selected->calls.load()), "call", "calls"));
  const auto is_selected = [&](const Branch* at) { return at->select(of.guards, call.scratch.words) != nullptr; };
  if (std::ranges::any_of(way, is_selected)) return {};  // calls do not come here any more
  std::vector<const Branch*> own(way.begin(), way.end());
  std::deque<TraceResult> made;
  return selected_of(call, of, own, made) ? "both sides are cheap: auto_select would compute both" : "";
}

std::vector<TakenWay> ways_of_sides(TakenWay way) {
  std::vector<TakenWay> ways, left;
  left.push_back(std::move(way));
  while (!left.empty()) {
    way = std::move(left.back());
    left.pop_back();
    const Branch& selected = *way.branches.back();
    if (!selected.decides) {
      ways.push_back(std::move(way));
      continue;
    }
    way.branches.pop_back();
    for (const std::int64_t outcome : {0, 1}) {
      const Branch* const side = selected.sides[outcome];
      TakenWay& next = left.emplace_back(way);
      next.outcomes.push_back(outcome);
      if (side->decides) next.branches.push_back(side->decides);
      next.branches.push_back(side);
    }
  }
  return ways;
}

}  // namespace weft::detail
