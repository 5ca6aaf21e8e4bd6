// The erased half of scan, while_loop and cond: what happens before and after the user's function runs. In:
// the leaves of states, of what is scanned and of results. Out: the loop's node, and its results in the leaves' places.
#include <algorithm>

#include "base/fail.hpp"
#include "record/loop_state.hpp"

namespace weft::detail {

LoopRecorder::LoopRecorder(const char* operation, Loc loc) : state_(new State(operation, loc)) {}
LoopRecorder::~LoopRecorder() { delete state_; }

namespace {

template <class T>
void append(std::vector<T>& to, std::span<const T> from) {
  to.insert(to.end(), from.begin(), from.end());
}
std::vector<Type> types_of(std::span<const Tensor> values) {
  std::vector<Type> types;
  for (const Tensor& value : values) types.push_back(type_of(value));
  return types;
}

}  // namespace

void LoopRecorder::begin_scan(const Leaves& state, const Leaves& xs) {
  State& s = *state_;
  s.resolve_all(state.list);
  const GrowingList<Leaf>& leaves = xs.list.leaves;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!holds_tensor(leaves[i].kind) || !leaves[i].tensor().defined()) continue;
    const Tensor value = leaves[i].tensor() = resolve(At(leaves[i].tensor(), s.loc()), s.name);
    const Shape& shape = type_of(value).shape;
    if (shape.rank() == 0)
      fail(s.name, s.loc(), name_of("xs", xs, i), " is ", text_of(type_of(value)), ", which has no axis to scan");
    if (s.sources.empty()) s.length = shape[0];
    if (!(s.length == shape[0]))
      fail(s.name, s.loc(), name_of("xs", xs, i), " is ", text_of(type_of(value)), ", with ", dims::to_string(shape[0]),
           " slices along axis 0, the first tensor of xs has ", dims::to_string(s.length));
    s.sources.push_back(value);
  }
  if (s.sources.empty()) fail(s.name, s.loc(), "there is no tensor in xs: fori(lower, upper, f, init) counts");
  LoopBody& body = s.open(0);
  s.carry(state, body);
  for (const Leaf& leaf : leaves) {
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    s.slices.push_back(body.input(slice_of(type_of(leaf.tensor()))));
    leaf.tensor() = s.slices.back();
  }
}

void LoopRecorder::end_scan(const Leaves& state, const Leaves* stack, const ScanOptions& options) {
  State& s = *state_;
  LoopBody& body = *s.bodies[0];
  std::vector<Tensor> outputs = s.next_state(state), ys;
  if (stack) ys = s.returned(*stack, true);
  body.close();
  std::vector<GeneratorState> drawn = append_generators(body, s.loc(), s.inputs, outputs);
  for (GeneratorState& each : drawn) s.carried.push_back(each.place());
  const std::size_t carries = outputs.size();
  if (carries + ys.size() == 0) fail(s.name, s.loc(), "the body returns no tensor");
  append<Tensor>(outputs, ys);
  std::vector<Tensor> operands = s.carried, inputs = s.inputs;
  append<Tensor>(operands, s.sources), append<Tensor>(inputs, s.slices);
  body.append_captured(operands, inputs);
  std::vector<Type> types = types_of(s.carried);
  for (const Tensor& y : ys) types.push_back(stacked(type_of(y), s.length));
  const Scan attributes{static_cast<std::int64_t>(carries), static_cast<std::int64_t>(s.sources.size()), s.length,
                        options.reverse};
  std::shared_ptr<const Graph> graph =
      with_stacks_of_host(body.take(std::move(inputs), std::move(outputs)), attributes, types);
  const std::vector<Tensor> results =
      results_of(record_region(Op::scan, operands, attributes, types, {std::move(graph)}, s.loc()));
  s.put_state(state, results);
  if (stack) s.put(*stack, std::span(results).subspan(carries));
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].place() = results[carries - drawn.size() + i];
}

// ---- two bodies -----------------------------------------------------------------------------------------------------

namespace {

// What two bodies draw from and capture: each once, in the order of the first body, then of the second.
struct Shared {
  std::vector<LoopBody::GeneratorUse> drawn;
  std::vector<Tensor> captured;

  explicit Shared(std::optional<LoopBody> (&bodies)[2]) {
    for (std::optional<LoopBody>& body : bodies) {
      for (const LoopBody::GeneratorUse& each : body->generators())
        if (std::ranges::none_of(drawn, [&](const auto& known) { return known.state == each.state; }))
          drawn.push_back(each);
      for (const Tensor& each : body->captured())
        if (std::ranges::none_of(captured, [&](const Tensor& known) { return known.same(each); }))
          captured.push_back(each);
    }
  }
  // The inputs of a body for them, and the states after it.
  void append_to(LoopBody& body, std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) const {
    for (const LoopBody::GeneratorUse& each : drawn) {
      const auto own = std::ranges::find(body.generators(), each.state, &LoopBody::GeneratorUse::state);
      const bool draws = own != body.generators().end();
      inputs.push_back(draws ? own->input : body.input(type_of(each.input)));
      if (outputs) outputs->push_back(draws ? own->after : inputs.back());
    }
  }
  void append_captured(LoopBody& body, std::vector<Tensor>& inputs) const {
    for (const Tensor& each : captured) {
      const Tensor input = body.input_of(each);
      inputs.push_back(input.defined() ? input : body.input(type_of(each)));
    }
  }
};

bool is_one_bool(const Tensor& value) {
  return type_of(value).dtype == DType::boolean && type_of(value).shape.element_count() == Dim(1);
}

}  // namespace

void LoopRecorder::begin_condition(const Leaves& state) {
  state_->resolve_all(state.list);
  state_->carry(state, state_->open(0));
}
void LoopRecorder::end_condition(const Tensor& value) {
  State& s = *state_;
  if (!value.defined()) fail(s.name, s.loc(), "the condition is an undefined tensor");
  s.condition = resolve(At(value, s.loc()), s.name);
  if (!is_one_bool(s.condition))
    fail(s.name, s.loc(), "the condition must be a bool of one element, it is ", text_of(type_of(s.condition)));
  s.bodies[0]->close();
  if (!s.bodies[0]->generators().empty())
    fail(s.name, s.loc(), "the condition draws random numbers: draw in the body, and make them part of the state");
  s.results[0] = std::move(s.inputs);
}
void LoopRecorder::begin_while(const Leaves& state) {
  state_->resolve_all(state.list);
  state_->carry(state, state_->open(1));
}
void LoopRecorder::end_while(const Leaves& state, const WhileOptions& options) {
  State& s = *state_;
  LoopBody &condition = *s.bodies[0], &body = *s.bodies[1];
  std::vector<Tensor> outputs = s.next_state(state);
  body.close();
  const Shared shared(s.bodies);
  std::vector<Tensor> asked = std::move(s.results[0]), inputs = std::move(s.inputs), operands = s.carried;
  std::vector<GeneratorState> drawn;
  for (const LoopBody::GeneratorUse& each : shared.drawn) operands.push_back(drawn.emplace_back(each, s.loc()).place());
  shared.append_to(condition, asked, nullptr), shared.append_to(body, inputs, &outputs);
  shared.append_captured(condition, asked), shared.append_captured(body, inputs);
  const std::size_t carries = outputs.size();
  if (carries == 0) fail(s.name, s.loc(), "the state has no tensor");
  if (options.limit < 0) fail(s.name, s.loc(), "the limit is ", options.limit);
  std::vector<Type> types = types_of(operands);
  append<Tensor>(operands, shared.captured);
  While attributes{static_cast<std::int64_t>(carries), options.limit, {}};
  if (options.limit > 0)
    attributes.passed.id =
        intern_text(error_text(s.name, s.loc(),
                               concat_text("the condition still holds after ",
                                           counted(options.limit, "iteration", "iterations"), ", the limit")));
  std::vector<std::shared_ptr<const Graph>> bodies{condition.take(std::move(asked), {s.condition}),
                                                   body.take(std::move(inputs), std::move(outputs))};
  s.condition = Tensor();
  const std::vector<Tensor> results =
      results_of(record_region(Op::while_loop, operands, attributes, types, std::move(bodies), s.loc()));
  s.put_state(state, results);
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].place() = results[carries - drawn.size() + i];
}

void LoopRecorder::begin_cond(const At& predicate) {
  State& s = *state_;
  s.predicate = resolve(predicate, s.name);
  if (!is_one_bool(s.predicate))
    fail(s.name, s.loc(), "the predicate must be a bool of one element, it is ", text_of(type_of(s.predicate)));
}
void LoopRecorder::begin_branch(const LeafList& operands) {
  State& s = *state_;
  const int branch = s.bodies[0] ? 1 : 0;
  s.resolve_all(operands);
  if (branch == 0)
    for (const Leaf& leaf : operands.leaves)
      if (holds_tensor(leaf.kind) && leaf.tensor().defined()) s.carried.push_back(leaf.tensor());
  std::vector<Tensor>& inputs = branch == 0 ? s.inputs : s.slices;
  State::bind(operands, s.open(branch), inputs);
}
void LoopRecorder::end_branch(const Leaves& result) {
  State& s = *state_;
  const int branch = s.bodies[1] ? 1 : 0;
  const GrowingList<Leaf>& leaves = result.list.leaves;
  s.results[branch] = s.returned(result, false);
  if (branch == 0) {
    s.bodies[0]->close();
    for (const Leaf& leaf : leaves) s.known.push_back({leaf.kind, bytes_of(leaf), leaf.size});
    return;
  }
  bool same = leaves.size() == s.known.size();
  for (std::size_t i = 0; same && i < leaves.size(); ++i)
    same = leaves[i].kind == s.known[i].kind &&
           (holds_tensor(leaves[i].kind) ||
            (leaves[i].size == s.known[i].size && bytes_of(leaves[i]) == s.known[i].bytes));
  if (!same) fail(s.name, s.loc(), "the branches return other numbers, lengths, presence or alternatives");
  for (std::size_t i = 0, next = 0; i < leaves.size(); ++i) {
    if (!holds_tensor(leaves[i].kind)) continue;
    Tensor& value = s.results[1][next];
    const Type &first = type_of(s.results[0][next]), &second = type_of(value);
    if (!same_type(first, second))
      fail(s.name, s.loc(), name_of("what a branch returns", result, i), " is ", text_of(first),
           " where it is true and ", text_of(second), " where it is false");
    value = RecordingBuilder().reshape(value, first.shape);  // as the next state of a loop
    ++next;
  }
  s.bodies[1]->close();
}
void LoopRecorder::end_cond(const Leaves& result) {
  State& s = *state_;
  const Shared shared(s.bodies);
  std::vector<Tensor> operands{s.predicate};
  append<Tensor>(operands, s.carried);
  std::vector<Type> types = types_of(s.results[0]);
  std::vector<GeneratorState> drawn;
  for (const LoopBody::GeneratorUse& each : shared.drawn) {
    operands.push_back(drawn.emplace_back(each, s.loc()).place());
    types.push_back(type_of(each.input));
  }
  append<Tensor>(operands, shared.captured);
  std::vector<std::shared_ptr<const Graph>> bodies;
  for (int branch = 0; branch < 2; ++branch) {
    LoopBody& body = *s.bodies[branch];
    std::vector<Tensor> inputs = std::move(branch == 0 ? s.inputs : s.slices), outputs = std::move(s.results[branch]);
    shared.append_to(body, inputs, &outputs);
    shared.append_captured(body, inputs);
    bodies.push_back(body.take(std::move(inputs), std::move(outputs)));
  }
  if (types.empty()) fail(s.name, s.loc(), "the branches return no tensor");
  const std::vector<Tensor> results =
      results_of(record_region(Op::cond, operands, {}, types, std::move(bodies), s.loc()));
  s.put(result, results);
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].place() = results[types.size() - drawn.size() + i];
}

}  // namespace weft::detail
