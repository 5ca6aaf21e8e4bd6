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

}  // namespace

void Decisions::recorded(const Tensor& value) {
  if (value.node()->op != Op::input) recorded_.add(value);
}

// The handles of the condition itself are gone when the next operation is recorded.
void Decisions::settle() {
  unsettled_ = false;
  if (!decisions_.back().followed) recorded_.settle(decisions_.back().known);
}

// The function has returned right after its last decision, and what its condition held can't be told from what it
// would have read. Where the decision before was the same one of a round before, what was held then is the answer.
void Decisions::settle_by_the_round_before() {
  const std::size_t count = decisions_.size();
  if (!unsettled_ || count < 3) return;
  TracedDecision& last = decisions_[count - 1];
  const TracedDecision &before = decisions_[count - 2], &first = decisions_[count - 3];
  const std::size_t length = last.recorded - before.recorded;
  if (last.followed || length != before.recorded - first.recorded || last.loc.line != before.loc.line ||
      last.loc.file != before.loc.file)
    return;
  for (KnownValue& known : last.known) {
    if (is_given_by_host(*recorded_.at(known.place).node())) continue;
    ValuePlace earlier = known.place;
    if (earlier.operation >= before.recorded) earlier.operation -= static_cast<std::uint32_t>(length);
    known.held = known.held && std::ranges::any_of(before.known, [&](const KnownValue& each) {
                   return each.place == earlier && each.held;
                 });
  }
}

std::vector<KnownValue> Decisions::known_of(const Branch& branch, Loc loc) const {
  std::vector<KnownValue> known;
  for (const ValuePlace place : branch.kept) {
    if (place.operation >= recorded_.size() || place.output >= recorded_[place.operation].node()->output_count)
      refuse_difference(loc);
    known.push_back({place, place.operation, true});
  }
  return known;
}

ValueCode Decisions::code_of(const Tensor& value) const {
  const Node* const node = value.node();
  if (node == trace_.generator_input.node()) return generator_code;
  if (node->op == Op::input) return static_cast<ValueCode>(node->attributes<Parameter>().slot) | ValueCode{1} << 63;
  const std::uint32_t place = recorded_.find(node);
  return place == NodeNumbers::none ? unnumbered : ValueCode{place} << 16 | value.output();
}

// Of what was recorded since the last decision.
std::shared_ptr<Recording> Decisions::recording_to(std::span<const Tensor> asked,
                                                   std::vector<std::uint64_t> facts) const {
  std::vector<const Node*> operations;
  for (std::size_t i = decisions_.empty() ? 0 : decisions_.back().recorded; i < recorded_.size(); ++i)
    operations.push_back(recorded_[i].node());
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
  return found == counted_.end() ? number_outside(recorded_[place]) : found->second;
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
  recorded_.note();
  std::int64_t outcome = 0;
  std::vector<KnownValue> known;
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
    for (std::size_t i = 0; i < known.size(); ++i) computed_[recorded_.at(known[i].place).word()] = scratch.kept[i];
    checked_ = trace_.effects.size();
    ++matched_;
  } else if (followed) {
    known = known_of(*followed_.branches[number], loc);
    outcome = followed_.outcomes[number];
    if (number + 1 == followed_.outcomes.size() && followed_.kept.size() == known.size())
      for (std::size_t i = 0; i < known.size(); ++i) computed_[recorded_.at(known[i].place).word()] = followed_.kept[i];
    checked_ = trace_.effects.size();
  } else {
    if (followed_.to_the_end) refuse_difference(loc);
    known = recorded_.known_now(value.node());
    outcome = compute(value, asked, loc, known);
  }
  if (logging::enabled(logging::Channel::decisions)) {
    // A call that is traced because of an outcome has followed the tree up to there.
    const bool extends = !branch && !followed_.to_the_end && number + 1 == followed_.outcomes.size();
    logging::write(logging::Channel::decisions, concat_text(to_string(loc), ": ", answer_text(asked, outcome),
                                                            followed && !extends ? ", as before" : ", new"));
  }
  if (asked != Asked::elements) answers[value.word()] = outcome;
  decisions_.push_back({value.node(), value.output(), asked, outcome, loc, recorded_.size(), trace_.effects.size(),
                        trace_.dims.conditions.size(), trace_.dims.bounds.size(), trace_.dims.symbols.size(),
                        std::move(known), followed, std::move(recording), std::move(lifted)});
  unsettled_ = true;
  return outcome;
}

// The value, and with it all that the function may read later.
std::int64_t Decisions::compute(const Tensor& value, Asked asked, Loc loc, std::span<const KnownValue> known) {
  PlacesByHandle places;
  std::vector<Tensor> given;
  for (const auto& [word, concrete] : computed_) {
    places.emplace(word, static_cast<std::uint32_t>(given.size()));
    given.push_back(concrete);
  }
  for (const std::uint32_t place : lifted_)
    if (recorded_[place].node()->op == Op::data) {
      places.emplace(recorded_[place].word(), static_cast<std::uint32_t>(given.size()));
      given.push_back(number_at(place));
    }
  std::vector<Tensor> roots{value};
  std::unordered_map<std::uint64_t, Tensor> next;
  std::vector<std::uint64_t> words;
  for (const KnownValue& each : known) {
    const Tensor root = recorded_.at(each.place);
    if (const auto found = computed_.find(root.word()); found != computed_.end()) {
      next.insert(*found);
    } else {
      roots.push_back(root);
      words.push_back(root.word());
    }
  }
  const std::span<const Tensor> checks = std::span(trace_.effects).subspan(std::min(checked_, trace_.effects.size()));
  Piece piece = cut_piece(trace_, std::move(roots), checks, places);
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

}  // namespace weft::detail
