// The end of a trace that has read values: what lies between its decisions becomes graphs of their own.
#include <algorithm>

#include "trace/decisions.hpp"

namespace weft::detail {

namespace {
// What results and state are, but for which values they are.
std::vector<std::uint64_t> facts_of(const TraceResult& last) {
  std::vector<std::uint64_t> facts;
  const auto add = [&](const Source& source) {
    facts.push_back(static_cast<std::uint64_t>(source.kind) << 32 | source.index);
  };
  for (const Source& source : last.results) add(source);
  for (const StateTensor& state : last.states) {
    facts.push_back(state.leaf);
    add(state.source);
  }
  for (const StateNumbers& numbers : last.numbers) facts.push_back(numbers.leaf);
  add(last.generator);
  facts.push_back(last.results.size());
  facts.push_back(last.states.size());
  return facts;
}
// Whether a number that differs from call to call is given as it is taken.
bool is_number_itself(const Tensor& value) { return value.node()->op == Op::data || type_of(value).shape.rank() == 0; }

// What a segment computes, each once, and where it comes from.
struct SegmentSources {
  const Node* generator_input;
  std::span<const std::uint32_t> leaves;  // of the trace's inputs, by slot
  PlacesByHandle places = {};             // of what is known before it
  std::size_t known_count = 0;            // of them, before numbers that differ from call to call
  std::vector<bool> passed = {};          // by place: it is read
  std::vector<Tensor> roots = {};
  PlacesByHandle roots_of = {};

  Source source_of(const Tensor& value) {
    const auto found_place = places.find(value.word());
    if (found_place != places.end() && (found_place->second < known_count || is_number_itself(value))) {
      passed[found_place->second] = true;
      return {Source::Kind::argument, kept_leaf(found_place->second)};
    }
    if (value.node() == generator_input) return {Source::Kind::argument, generator_leaf};
    if (value.node()->op == Op::input)
      return {Source::Kind::argument, leaves[static_cast<std::size_t>(value.node()->attributes<Parameter>().slot)]};
    const auto [found, added] = roots_of.emplace(value.word(), static_cast<std::uint32_t>(roots.size()));
    if (added) roots.push_back(value);
    return {Source::Kind::computed, found->second};
  }
  // The last segment's results, state and generator, which name outputs.
  void set(TraceResult& traced, std::span<const Tensor> outputs) {
    std::vector<Source> sources;
    for (const Tensor& output : outputs) sources.push_back(source_of(output));
    const auto take = [&](Source& source) {
      if (source.kind == Source::Kind::computed) source = sources[source.index];
    };
    for (Source& source : traced.results) take(source);
    for (StateTensor& state : traced.states) take(state.source);
    take(traced.generator);
  }
};

// The segment before keeps less than was known: places become those of what it keeps.
void move_kept(TraceResult& traced, std::span<const std::uint32_t> moved) {
  const auto move = [&](Source& source) {
    if (source.kind == Source::Kind::argument && is_kept(source.index))
      source.index = kept_leaf(moved[kept_index(source.index)]);
  };
  for (Source& source : traced.results) move(source);
  for (StateTensor& state : traced.states) move(state.source);
  for (Source& source : traced.kept) move(source);
  move(traced.generator);
  if (traced.decision) move(traced.decision->value);
}

void append(std::vector<DimCondition>& to, const std::vector<DimCondition>& from, std::size_t begin, std::size_t end) {
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
            from.begin() + static_cast<std::ptrdiff_t>(end));
}
}  // namespace

TracedPath Decisions::path(TraceResult last, std::span<const Tensor> outputs, std::span<const std::uint32_t> leaves) {
  TracedPath path;
  path.steps.resize(decisions_.size() + 1);
  recorded_.note();
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
  std::vector<KnownValue> kept;  // of the segment that is looked at, which is the one before the last that was
  for (std::size_t k = path.steps.size(); k-- > path.matched;) {
    TracedPath::Step& step = path.steps[k];
    const TracedDecision* const own = k < decisions_.size() ? &decisions_[k] : nullptr;
    TracedDecision* const before = k > 0 ? &decisions_[k - 1] : nullptr;
    SegmentSources sources{trace_.generator_input.node(), leaves};
    if (before)
      for (const KnownValue& known : before->known)
        sources.places.emplace(recorded_.at(known.place).word(), static_cast<std::uint32_t>(sources.places.size()));
    const std::size_t known_count = sources.known_count = before ? before->known.size() : 0;
    for (std::size_t i = 0; i < lifted_.size(); ++i)
      sources.places.emplace(recorded_[lifted_[i]].word(), static_cast<std::uint32_t>(known_count + i));
    sources.passed.resize(known_count + lifted_.size());

    if (own) {
      step.traced.decision = Decision{sources.source_of(Tensor(own->node, own->output)), own->asked, own->loc};
      for (const KnownValue& each : kept) {
        step.traced.kept.push_back(sources.source_of(recorded_.at(each.place)));
        step.kept.push_back(each.place);
      }
    } else {
      step.traced = std::move(last);
      sources.set(step.traced, outputs);
    }
    const std::size_t first_effect = before ? before->effects : 0;
    const std::size_t effect_end = own ? own->effects : trace_.effects.size();
    Piece piece = cut_piece(trace_, std::move(sources.roots),
                            std::span(trace_.effects).subspan(first_effect, effect_end - first_effect), sources.places);
    std::vector<bool>& passed = sources.passed;
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
    move_kept(step.traced, moved);
    for (const std::uint32_t input : piece.inputs)
      step.traced.inputs.push_back(is_kept(input)            ? kept_leaf(moved[kept_index(input)])
                                   : input == generator_leaf ? input
                                                             : leaves[input]);
    step.traced.graph = std::move(piece.graph);
    if (own) step.traced.graph.symbols.resize(own->symbols);

    const auto& conditions = trace_.dims.conditions;
    const auto& bounds = trace_.dims.bounds;
    const std::size_t condition_end = own ? own->conditions : conditions.size(),
                      bound_end = own ? own->bounds : bounds.size();
    append(step.traced.graph.conditions, conditions, 0, condition_end);
    append(step.traced.graph.conditions, bounds, 0, bound_end);
    append(step.conditions, conditions, before ? before->conditions : 0, condition_end);
    append(step.conditions, bounds, before ? before->bounds : 0, bound_end);
    step.outcome = before ? before->outcome : 0;
    if (resumable_) {
      const std::shared_ptr<Recording> recording = own ? own->recording : ending;
      for (const Node* node : recording->operations) recording->owned.emplace_back(const_cast<Node*>(node));
      step.recording = recording;
      step.lifted = own ? own->lifted : lifted_at_end;
    }
    if (own) continue;
    for (const KnownValue& each : kept) {
      const auto found = computed_.find(recorded_.at(each.place).word());
      path.kept.push_back(found == computed_.end() ? Tensor() : found->second);
    }
    for (Tensor& number : numbers_at(step.host_inputs)) path.kept.push_back(std::move(number));
  }
  std::vector<Tensor> roots(outputs.begin(), outputs.end());
  for (const TracedDecision& made : decisions_) roots.emplace_back(made.node, made.output);
  path.generator = generator_;
  path.whole = make_graph(trace_.inputs, std::move(roots), trace_.effects);
  return path;
}

}  // namespace weft::detail
