#include "trace/decisions.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/log.hpp"
#include "ir/host_function.hpp"
#include "record/random.hpp"
#include "trace/replay.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t most_decisions = 1 << 16;

[[noreturn]] void refuse_difference(Loc loc) {
  fail("compile", loc,
       "the function decides otherwise than when it was compiled, for the same values: it reads what guards cannot see "
       "(a "
       "global, a captured pointer). Pass it as an argument");
}

// What is as cheap to make as to keep, or has no value.
bool is_made_again(const Node& node) {
  return node.op == Op::constant || node.op == Op::data || node.op == Op::iota || node.op == Op::input ||
         node.op == Op::check || (node.op == Op::host_call && !runs_once(node));
}
// What the program's code has given can't be computed again: it is kept where anything may still read it.
bool is_given_by_host(const Node& node) { return node.op == Op::host_call; }

// The same elements otherwise: what it shows is kept in its place.
bool is_view(const Node& node) {
  return node.op == Op::expand || node.op == Op::reshape || node.op == Op::permute || node.op == Op::variable ||
         node.op == Op::stop_gradient;
}

}  // namespace

void Decisions::recorded(const Tensor& value) {
  if (value.node()->op != Op::input) recorded_.push_back({value});
}

// Looks at what was recorded since the last decision.
void Decisions::note_all() {
  for (; noted_ < recorded_.size(); ++noted_) {
    const Node& node = *recorded_[noted_].value.node();
    places_.set(&node, static_cast<std::uint32_t>(noted_));
    for (const Tensor& operand : node.inputs())
      if (const std::uint32_t place = places_.find(operand.node()); place != NodeNumbers::none) ++recorded_[place].uses;
    if (!is_made_again(node)) candidates_.push_back(static_cast<std::uint32_t>(noted_));
  }
}

// Whether somebody has a handle besides the nodes that read it, the list here, the trace's list of checks, and who asks
// for its value now.
bool Decisions::is_held(std::uint32_t operation, const Node* asked) const {
  const Recorded& recorded = recorded_[operation];
  const Node& node = *recorded.value.node();
  return node.references > 1 + recorded.uses + (is_effect(node) ? 1 : 0) + (&node == asked ? 1 : 0);
}

// Drops the candidates that nobody can read any more: a handle that is gone does not come back. Inside of a gradient
// its derivative reads what was recorded since it began.
std::vector<Decisions::Known> Decisions::known_now(const Node* asked) {
  const std::uint64_t level = recorder().level_start;
  std::vector<Known> known;
  std::erase_if(candidates_, [&](std::uint32_t operation) {
    const bool given = level != UINT64_MAX && is_given_by_host(*recorded_[operation].value.node());
    const bool held = is_held(operation, asked) || given;
    if (!held && recorded_[operation].value.node()->sequence < level) return true;
    Tensor value = recorded_[operation].value;
    if (is_view(*value.node())) {
      while (is_view(*value.node())) value = value.node()->input(0);
      const std::uint32_t place = places_.find(value.node());
      if (place != NodeNumbers::none && !is_made_again(*value.node()))
        known.push_back({{place, value.output()}, operation, held});
      return false;
    }
    for (std::uint32_t output = 0; output < value.node()->output_count; ++output)
      known.push_back({{operation, output}, operation, held});
    return false;
  });
  // One each, held where any is.
  std::ranges::sort(
      known, [](const Known& a, const Known& b) { return a.place != b.place ? a.place < b.place : a.held > b.held; });
  const auto same = std::ranges::unique(known, {}, &Known::place);
  known.erase(same.begin(), same.end());
  return known;
}

// The handles of the condition itself are gone when the next operation is recorded.
void Decisions::settle() {
  unsettled_ = false;
  for (Known& known : decisions_.back().known)
    if (!decisions_.back().followed && !is_given_by_host(*value_at(known.place).node()))
      known.held = known.held && is_held(known.holder, nullptr);
}

// The function has returned right after its last decision, and what its condition held can't be told from what it
// would have read. Where the decision before was the same one of a round before, what was held then is the answer.
void Decisions::settle_by_the_round_before() {
  const std::size_t count = decisions_.size();
  if (!unsettled_ || count < 3) return;
  Made& last = decisions_[count - 1];
  const Made &before = decisions_[count - 2], &first = decisions_[count - 3];
  const std::size_t length = last.recorded - before.recorded;
  if (last.followed || length != before.recorded - first.recorded || last.loc.line != before.loc.line ||
      last.loc.file != before.loc.file)
    return;
  for (Known& known : last.known) {
    if (is_given_by_host(*value_at(known.place).node())) continue;
    ValuePlace earlier = known.place;
    if (earlier.operation >= before.recorded) earlier.operation -= static_cast<std::uint32_t>(length);
    known.held = known.held && std::ranges::any_of(
                                   before.known, [&](const Known& each) { return each.place == earlier && each.held; });
  }
}

std::vector<Decisions::Known> Decisions::known_of(const Branch& branch, Loc loc) const {
  std::vector<Known> known;
  for (const ValuePlace place : branch.kept) {
    if (place.operation >= recorded_.size() || place.output >= recorded_[place.operation].value.node()->output_count)
      refuse_difference(loc);
    known.push_back({place, place.operation, true});
  }
  return known;
}

ValueCode Decisions::code_of(const Tensor& value) const {
  const Node* const node = value.node();
  if (node == trace_.generator_input.node()) return generator_code;
  if (node->op == Op::input) return static_cast<ValueCode>(node->attributes<Parameter>().slot) | ValueCode{1} << 63;
  const std::uint32_t place = places_.find(node);
  return place == NodeNumbers::none ? unnumbered : ValueCode{place} << 16 | value.output();
}

// Of what was recorded since the last decision.
std::shared_ptr<Recording> Decisions::recording_to(std::span<const Tensor> asked,
                                                   std::vector<std::uint64_t> facts) const {
  std::vector<const Node*> operations;
  for (std::size_t i = decisions_.empty() ? 0 : decisions_.back().recorded; i < recorded_.size(); ++i)
    operations.push_back(recorded_[i].value.node());
  return std::make_shared<Recording>(make_recording(std::move(operations), asked, std::move(facts),
                                                    [&](const Tensor& value) { return code_of(value); }));
}

// The branch that goes on from those that were found, where one has the same recording. Else nothing is followed from
// here on, and `lifted` are the numbers that would make it the same.
const Branch* Decisions::match(const Recording& now, std::vector<std::uint32_t>& lifted) {
  if (!matching_) return nullptr;
  const std::int64_t outcome = decisions_.empty() ? 0 : decisions_.back().outcome;
  const auto first = static_cast<std::uint32_t>(decisions_.empty() ? 0 : decisions_.back().recorded);
  const Branch* const branch = followed_.resumption->follow(now, outcome, first, lifted);
  matching_ = branch != nullptr;
  if (branch) lifted = branch->lifted;
  for (const std::uint32_t place : lifted)
    if (const auto at = std::ranges::lower_bound(lifted_, place); at == lifted_.end() || *at != place)
      lifted_.insert(at, place);
  return branch;
}

Tensor Decisions::number_at(std::uint32_t place) const {
  const auto found = counted_.find(place);
  return found == counted_.end() ? number_outside(recorded_[place].value) : found->second;
}

std::vector<Tensor> Decisions::numbers_at(std::span<const std::uint32_t> places) const {
  const OutsideTraces outside;
  std::vector<Tensor> numbers;
  for (const std::uint32_t place : places) numbers.push_back(number_at(place));
  return numbers;
}

Tensor Decisions::value(const Tensor& value, Loc loc) {
  resumable_ = true;
  if (value.node()->op == Op::input && value.node() != trace_.generator_input.node())
    return values[static_cast<std::size_t>(value.node()->attributes<Parameter>().slot)];
  if (const auto found = read_.find(value.word()); found != read_.end()) return found->second;
  decide(value, Asked::elements, loc);
  return read_.at(value.word());
}

void Decisions::constant_data(const Tensor& tensor) {
  if (unsettled_) settle();
  recorded(tensor);
}

void Decisions::host_data(const Tensor& tensor, const char* operation, Loc loc) {
  if (!resumable_) refuse_host_data(operation, loc);
  if (unsettled_) settle();
  lifted_.push_back(static_cast<std::uint32_t>(recorded_.size()));
  recorded(tensor);
}

Tensor Decisions::counted_data(const Tensor& tensor, Loc loc) {
  if (unsettled_) settle();
  Type type = type_of(tensor);
  counts_.push_back(type.shape[0].constant());
  type.shape[0] = trace_.dims.new_symbol(counts_.back(), 0, INT64_MAX);
  const auto place = static_cast<std::uint32_t>(recorded_.size());
  lifted_.push_back(place);
  counted_[place] = tensor;
  if (followed_.resumption) followed_.resumption->scratch().counts = counts_;
  const Tensor traced = Builder(loc, recorder().scope, trace_.id).make(Op::data, {}, Contents{}, type);
  ++trace_.recorded;
  recorded(traced);
  return traced;
}

std::int64_t Decisions::decide(const Tensor& value, Asked asked, Loc loc) {
  auto& answers = answers_[static_cast<std::size_t>(asked)];
  if (asked != Asked::elements)
    if (const auto found = answers.find(value.word()); found != answers.end()) return found->second;
  if (unsettled_) settle();
  const std::size_t number = decisions_.size();
  if (number == most_decisions)
    fail("item", loc, "the function has decided on ", most_decisions, " values in one call: does its loop end?");
  note_all();
  std::int64_t outcome = 0;
  std::vector<Known> known;
  std::shared_ptr<Recording> recording = recording_to(std::span(&value, 1), {static_cast<std::uint64_t>(asked)});
  std::vector<std::uint32_t> lifted;
  const Branch* const branch = match(*recording, lifted);
  const bool followed = branch || number < followed_.outcomes.size();
  if (branch) {
    outcome = followed_.resumption->run(numbers_at(branch->host_inputs));
    Scratch& scratch = followed_.resumption->scratch();
    generator_ = scratch.generator_state;
    if (asked == Asked::elements) read_[value.word()] = std::exchange(scratch.asked, Tensor());
    known = known_of(*branch, loc);
    computed_.clear();
    for (std::size_t i = 0; i < known.size(); ++i) computed_[value_at(known[i].place).word()] = scratch.kept[i];
    checked_ = trace_.effects.size();
    ++matched_;
  } else if (followed) {
    known = known_of(*followed_.branches[number], loc);
    outcome = followed_.outcomes[number];
    if (number + 1 == followed_.outcomes.size() && followed_.kept.size() == known.size())
      for (std::size_t i = 0; i < known.size(); ++i) computed_[value_at(known[i].place).word()] = followed_.kept[i];
    checked_ = trace_.effects.size();
  } else {
    if (followed_.to_the_end) refuse_difference(loc);
    known = known_now(value.node());
    outcome = compute(value, asked, loc, known);
  }
  if (logging::enabled(logging::Channel::decisions))
    logging::write(logging::Channel::decisions, concat_text(to_string(loc), ": ", answer_text(asked, outcome),
                                                            followed ? ", as before" : ", computed"));
  if (asked != Asked::elements) answers[value.word()] = outcome;
  decisions_.push_back({value.node(), value.output(), asked, outcome, loc, recorded_.size(), trace_.effects.size(),
                        trace_.dims.conditions.size(), trace_.dims.bounds.size(), trace_.dims.symbols.size(),
                        std::move(known), followed, std::move(recording), std::move(lifted)});
  unsettled_ = true;
  return outcome;
}

// Copies what the roots and the checks need, and stops at inputs and at what is known.
Decisions::Piece Decisions::cut(std::vector<Tensor> roots, std::span<const Tensor> effects, const Places& known) const {
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
  const Node* const generator = trace_.generator_input.node();
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
  piece.graph.symbols = trace_.dims.symbols;
  return piece;
}

// The value, and with it all that the function may read later.
std::int64_t Decisions::compute(const Tensor& value, Asked asked, Loc loc, std::span<const Known> known) {
  Places places;
  std::vector<Tensor> given;
  for (const auto& [word, concrete] : computed_) {
    places.emplace(word, static_cast<std::uint32_t>(given.size()));
    given.push_back(concrete);
  }
  for (const std::uint32_t place : lifted_)
    if (recorded_[place].value.node()->op == Op::data) {
      places.emplace(recorded_[place].value.word(), static_cast<std::uint32_t>(given.size()));
      given.push_back(number_at(place));
    }
  std::vector<Tensor> roots{value};
  std::unordered_map<std::uint64_t, Tensor> next;
  std::vector<std::uint64_t> words;
  for (const Known& each : known) {
    const Tensor root = value_at(each.place);
    if (const auto found = computed_.find(root.word()); found != computed_.end()) {
      next.insert(*found);
    } else {
      roots.push_back(root);
      words.push_back(root.word());
    }
  }
  const std::span<const Tensor> checks = std::span(trace_.effects).subspan(std::min(checked_, trace_.effects.size()));
  Piece piece = cut(std::move(roots), checks, places);
  piece.graph.conditions = trace_.dims.conditions;
  std::vector<Tensor> inputs;
  for (const std::uint32_t input : piece.inputs) {
    if (input == generator_leaf && followed_.resumption) generator_ = followed_.resumption->hold_generator();
    if (input == generator_leaf && !generator_.defined()) generator_ = *hold_default_generator().state;
    inputs.push_back(is_kept(input) ? given[kept_index(input)] : input == generator_leaf ? generator_ : values[input]);
  }
  std::vector<std::int64_t> symbols;
  for (const DimSymbol& symbol : trace_.dims.symbols) symbols.push_back(symbol.hint);
  const OutsideTraces outside;
  const DefaultFloatModes modes;
  const std::vector<Tensor> results =
      replay(piece.graph, inputs, symbols, backend_ == Backend::reference ? backend_ : Backend::eager, loc);
  checked_ = trace_.effects.size();
  for (std::size_t i = 0; i < words.size(); ++i) next[words[i]] = results[i + 1];
  computed_ = std::move(next);
  if (asked != Asked::elements) return answer(results[0], asked, loc);
  read_[value.word()] = results[0];
  return 0;
}

namespace {
// What results and state are, but for which values they are.
std::vector<std::uint64_t> facts_of(const TraceResult& last) {
  std::vector<std::uint64_t> facts;
  const auto add = [&](const Source& source) {
    facts.push_back(static_cast<std::uint64_t>(source.kind) << 32 | source.index);
  };
  for (const Source& source : last.results) add(source);
  for (const TraceResult::State& state : last.states) {
    facts.push_back(state.leaf);
    add(state.source);
  }
  for (const TraceResult::Numbers& numbers : last.numbers) facts.push_back(numbers.leaf);
  add(last.generator);
  facts.push_back(last.results.size());
  facts.push_back(last.states.size());
  return facts;
}
// Whether a number that differs from call to call is given as it is taken.
bool is_number_itself(const Tensor& value) { return value.node()->op == Op::data || type_of(value).shape.rank() == 0; }
}  // namespace

TracedPath Decisions::path(TraceResult last, std::span<const Tensor> outputs, std::span<const std::uint32_t> leaves) {
  TracedPath path;
  path.steps.resize(decisions_.size() + 1);
  note_all();
  settle_by_the_round_before();
  path.resumable = resumable_;
  path.counts = counts_;
  std::shared_ptr<Recording> ending;
  std::vector<std::uint32_t> lifted_at_end;
  if (resumable_) {
    ending = recording_to(outputs, facts_of(last));
    const Branch* const branch = match(*ending, lifted_at_end);
    path.matched = matched_;
    if (branch) {
      path.matched = path.steps.size();
      path.last() = std::move(last);
      path.kept.clear();
      std::vector<Tensor> numbers = numbers_at(branch->host_inputs);
      LineVector<Tensor>& kept = followed_.resumption->scratch().kept;
      kept.insert(kept.end(), numbers.begin(), numbers.end());
      return path;
    }
  }
  std::vector<Known> kept;  // of the segment that is looked at, which is the one before the last that was
  for (std::size_t k = path.steps.size(); k-- > path.matched;) {
    TracedPath::Step& step = path.steps[k];
    const Made* const own = k < decisions_.size() ? &decisions_[k] : nullptr;
    Made* const before = k > 0 ? &decisions_[k - 1] : nullptr;
    Places places;  // of what is known before it
    if (before)
      for (const Known& known : before->known)
        places.emplace(value_at(known.place).word(), static_cast<std::uint32_t>(places.size()));
    const std::size_t known_count = before ? before->known.size() : 0;
    for (std::size_t i = 0; i < lifted_.size(); ++i)
      places.emplace(recorded_[lifted_[i]].value.word(), static_cast<std::uint32_t>(known_count + i));

    // What it computes, each once, and where it comes from.
    std::vector<Tensor> roots;
    Places roots_of;
    std::vector<bool> passed(known_count + lifted_.size());
    const auto source_of = [&](const Tensor& value) -> Source {
      const auto found_place = places.find(value.word());
      if (found_place != places.end() && (found_place->second < known_count || is_number_itself(value))) {
        passed[found_place->second] = true;
        return {Source::Kind::argument, kept_leaf(found_place->second)};
      }
      if (value.node() == trace_.generator_input.node()) return {Source::Kind::argument, generator_leaf};
      if (value.node()->op == Op::input)
        return {Source::Kind::argument, leaves[static_cast<std::size_t>(value.node()->attributes<Parameter>().slot)]};
      const auto [found, added] = roots_of.emplace(value.word(), static_cast<std::uint32_t>(roots.size()));
      if (added) roots.push_back(value);
      return {Source::Kind::computed, found->second};
    };
    if (own) {
      step.traced.decision = Decision{source_of(Tensor(own->node, own->output)), own->asked, own->loc};
      for (const Known& each : kept) {
        step.traced.kept.push_back(source_of(value_at(each.place)));
        step.kept.push_back(each.place);
      }
    } else {
      step.traced = std::move(last);
      std::vector<Source> sources;
      for (const Tensor& output : outputs) sources.push_back(source_of(output));
      const auto take = [&](Source& source) {
        if (source.kind == Source::Kind::computed) source = sources[source.index];
      };
      for (Source& source : step.traced.results) take(source);
      for (TraceResult::State& state : step.traced.states) take(state.source);
      take(step.traced.generator);
    }
    const std::size_t first_effect = before ? before->effects : 0;
    const std::size_t effect_end = own ? own->effects : trace_.effects.size();
    Piece piece =
        cut(std::move(roots), std::span(trace_.effects).subspan(first_effect, effect_end - first_effect), places);
    for (const std::uint32_t input : piece.inputs)
      if (is_kept(input)) passed[kept_index(input)] = true;

    // What the segment before keeps: its list without what nobody reads, or as the tree has it.
    std::vector<std::uint32_t> moved(passed.size());
    kept.clear();
    if (before)
      for (std::size_t i = 0; i < known_count; ++i) {
        moved[i] = static_cast<std::uint32_t>(kept.size());
        if (before->followed || before->known[i].held || passed[i]) kept.push_back(before->known[i]);
      }
    for (std::size_t i = 0; i < lifted_.size(); ++i) {
      if (!passed[known_count + i]) continue;
      moved[known_count + i] = static_cast<std::uint32_t>(kept.size() + step.host_inputs.size());
      step.host_inputs.push_back(lifted_[i]);
    }
    const auto move = [&](std::uint32_t leaf) { return is_kept(leaf) ? kept_leaf(moved[kept_index(leaf)]) : leaf; };
    const auto move_source = [&](Source& source) {
      if (source.kind == Source::Kind::argument) source.index = move(source.index);
    };
    for (Source& source : step.traced.results) move_source(source);
    for (TraceResult::State& state : step.traced.states) move_source(state.source);
    for (Source& source : step.traced.kept) move_source(source);
    move_source(step.traced.generator);
    if (step.traced.decision) move_source(step.traced.decision->value);
    for (const std::uint32_t input : piece.inputs)
      step.traced.inputs.push_back(is_kept(input) || input == generator_leaf ? move(input) : leaves[input]);
    step.traced.graph = std::move(piece.graph);
    if (own) step.traced.graph.symbols.resize(own->symbols);

    const auto& conditions = trace_.dims.conditions;
    const auto& bounds = trace_.dims.bounds;
    const std::size_t condition_end = own ? own->conditions : conditions.size(),
                      bound_end = own ? own->bounds : bounds.size();
    const auto add = [](std::vector<DimCondition>& to, const std::vector<DimCondition>& from, std::size_t begin,
                        std::size_t end) {
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
                from.begin() + static_cast<std::ptrdiff_t>(end));
    };
    add(step.traced.graph.conditions, conditions, 0, condition_end);
    add(step.traced.graph.conditions, bounds, 0, bound_end);
    add(step.conditions, conditions, before ? before->conditions : 0, condition_end);
    add(step.conditions, bounds, before ? before->bounds : 0, bound_end);
    step.outcome = before ? before->outcome : 0;
    if (resumable_) {
      const std::shared_ptr<Recording> recording = own ? own->recording : ending;
      for (const Node* node : recording->operations) recording->owned.emplace_back(const_cast<Node*>(node));
      step.recording = recording;
      step.lifted = own ? own->lifted : lifted_at_end;
    }
    if (own) continue;
    for (const Known& each : kept) {
      const auto found = computed_.find(value_at(each.place).word());
      path.kept.push_back(found == computed_.end() ? Tensor() : found->second);
    }
    for (Tensor& number : numbers_at(step.host_inputs)) path.kept.push_back(std::move(number));
  }
  std::vector<Tensor> roots(outputs.begin(), outputs.end());
  for (const Made& made : decisions_) roots.emplace_back(made.node, made.output);
  path.generator = generator_;
  path.whole = make_graph(trace_.inputs, std::move(roots), trace_.effects);
  return path;
}

}  // namespace weft::detail
