#include "record/loops.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "record/random.hpp"
#include "weft/loops.hpp"

namespace weft {

// ---- a body ---------------------------------------------------------------------------------------------------------

LoopBody::LoopBody(Loc loc, const char* operation, std::uint32_t scope, Loc call) : call_(call) {
  DimEnvironment* const sizes = DimEnvironment::current();
  trace_.id = new_loop_id();
  trace_.is_loop = true;
  inside_.emplace(trace_);
  recorder().loc = loc;
  recorder().scope = scope;
  DimEnvironment::current() = sizes;
  called_operation() = operation;
}

LoopBody::~LoopBody() {
  if (inside_) inside_.reset();
  for (auto drawn = trace_.generators.rbegin(); drawn != trace_.generators.rend(); ++drawn)
    *drawn->state = drawn->before;
}

Tensor LoopBody::input(const Type& type) { return Builder(call_, 0, trace_.id).input(0, type); }

void LoopBody::close() {
  inside_.reset();
  for (const Trace::Drawn& drawn : trace_.generators) {
    generators_.push_back({drawn.state, drawn.before, drawn.input, *drawn.state});
    *drawn.state = drawn.before;
  }
  trace_.generators.clear();
  if (trace_.generator_input.defined())
    generators_.push_back({nullptr, {}, trace_.generator_input, trace_.generator_value});
  trace_.generator_input = trace_.generator_value = Tensor();
}

Tensor LoopBody::input_of(const Tensor& captured) const {
  const auto found = trace_.inputs_of_captured.find(captured.word());
  return found == trace_.inputs_of_captured.end() ? Tensor() : found->second;
}

std::shared_ptr<const Graph> LoopBody::take(std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i].node()->attributes_ = Parameter{static_cast<std::int64_t>(i)};
  return std::make_shared<const Graph>(make_graph(std::move(inputs), std::move(outputs), std::move(trace_.effects)));
}

Type stacked(Type type, Dim length) {
  Shape shape = Shape::of(length);
  for (const Dim size : type.shape) shape.push_back(size);
  type.shape = shape;
  type.weak = false;
  return type;
}
Type slice_of(Type type) {
  Shape shape;
  for (int i = 1; i < type.shape.rank(); ++i) shape.push_back(type.shape[i]);
  type.shape = shape;
  return type;
}

namespace detail {

// ---- the erased half of the public functions ------------------------------------------------------------------------

namespace {

// How many loops and choices may be inside each other. Each takes some KB of the stack while it is recorded.
constexpr std::ptrdiff_t nesting_limit = 64;

// A leaf as it was when the body was opened: what the body returns in its place is held against it.
struct Known {
  LeafKind kind;
  std::string bytes;  // of a number or text
  std::uint64_t size;
  int place = -1;  // of a tensor: among the carries
};
std::string bytes_of(const Leaf& leaf) {
  const bool has = leaf.kind == LeafKind::number || leaf.kind == LeafKind::bytes || leaf.kind == LeafKind::text;
  return has && leaf.address ? std::string(static_cast<const char*>(leaf.address), leaf.size) : std::string();
}

// `what`, or `what`.path of the leaf.
std::string name_of(const char* what, const Leaves& leaves, std::size_t leaf) {
  struct Search {
    std::size_t left;
    std::string path;
  } search{leaf, {}};
  visit_paths(leaves.type, leaves.list.leaves.begin(), &search, [](void* context, const Leaf&, const char* path) {
    Search& s = *static_cast<Search*>(context);
    if (s.left-- == 0) s.path = path;
  });
  return search.path.empty() ? what : concat_text(what, "'s ", search.path);
}

bool same_type(const Type& a, const Type& b) {
  bool same = a.dtype == b.dtype && a.device == b.device && a.shape.rank() == b.shape.rank();
  for (int i = 0; same && i < a.shape.rank(); ++i) same = a.shape[i] == b.shape[i];
  return same;
}
std::string text_of(Type type) {
  type.weak = false;
  return to_string(type);
}

// A generator's state, which the trace around goes on with. The default generator's is held while the loop is recorded,
// outside of traces.
class GeneratorState {
 public:
  GeneratorState(const LoopBody::Drawn& drawn, Loc loc) : place_(drawn.state) {
    if (place_) return;
    if (recorder().trace()) {
      place_ = &traced_generator_state(loc);
    } else {
      held_ = hold_default_generator();
      place_ = held_.state;
    }
  }
  Tensor& place() { return *place_; }

 private:
  HeldGenerator held_;
  Tensor* place_;
};

}  // namespace

struct LoopRecorder::State {
  explicit State(const char* name, Loc loc)
      : name(called_operation() ? called_operation() : name),
        outer_loc(recorder().loc),
        outer_operation(called_operation()),
        outer_scope(recorder().scope),
        call(name, loc),
        here(call.loc()) {}

  const char* const name;
  const Loc outer_loc;  // and the following: before this loop
  const char* const outer_operation;
  const std::uint32_t outer_scope;
  Operation call;
  const Loc here;            // the user's line
  std::vector<Known> known;  // leaves of the state
  std::vector<Tensor> carried, inputs;
  std::vector<Tensor> sources, slices;
  Dim length = 0;
  std::optional<LoopBody> bodies[2];
  std::vector<Tensor> results[2];  // of the bodies
  Tensor condition, predicate;

  Loc loc() const { return here; }

  // A body is recorded before it runs, so one that opens itself again would never end.
  LoopBody& open(int body) {
    if (std::ranges::count_if(recorder().traces, &Trace::is_loop) >= nesting_limit)
      fail(name, here, "is inside ", nesting_limit,
           " loops and choices, the limit: recording a body that calls itself never ends");
    return bodies[body].emplace(outer_loc, outer_operation, outer_scope, here);
  }
  // As values of the trace that is recorded.
  void resolve_all(const LeafList& list) const {
    for (const Leaf& leaf : list.leaves)
      if (holds_tensor(leaf.kind) && leaf.tensor().defined()) leaf.tensor() = resolve(At(leaf.tensor(), loc()), name);
  }
  // Each tensor of the state, and an input of the body in its place.
  void carry(const Leaves& state, LoopBody& body) {
    known.clear(), carried.clear(), inputs.clear();
    for (std::size_t i = 0; i < state.list.leaves.size(); ++i) {
      const Leaf& leaf = state.list.leaves[i];
      known.push_back({leaf.kind, bytes_of(leaf), leaf.size, -1});
      if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
      known.back().place = static_cast<int>(carried.size());
      carried.push_back(leaf.tensor());
    }
    bind(state.list, body, inputs);
  }
  static void bind(const LeafList& list, LoopBody& body, std::vector<Tensor>& inputs) {
    for (const Leaf& leaf : list.leaves) {
      if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
      inputs.push_back(body.input(type_of(leaf.tensor())));
      leaf.tensor() = inputs.back();
    }
  }
  // What the body returns as the next state, in the order of the carries.
  std::vector<Tensor> next_state(const Leaves& state) {
    const GrowingList<Leaf>& leaves = state.list.leaves;
    std::vector<Tensor> next(carried.size());
    if (leaves.size() != known.size())
      fail(name, loc(), "the body changes lengths, presence or alternatives in its state");
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Leaf& leaf = leaves[i];
      const Known& was = known[i];
      if (leaf.kind != was.kind || (!holds_tensor(leaf.kind) && leaf.size != was.size))
        fail(name, loc(), "the body changes lengths, presence or alternatives in its state");
      if (!holds_tensor(leaf.kind)) {
        if (bytes_of(leaf) != was.bytes)
          fail(name, loc(), name_of("the state", state, i),
               " is a number of the host, which the body changes: make it a tensor");
        continue;
      }
      const bool defined = leaf.tensor().defined();
      if (defined != (was.place >= 0))
        fail(name, loc(), name_of("the state", state, i), " is an undefined tensor ",
             defined ? "before the body and not after it" : "after the body and not before it");
      if (!defined) continue;
      const auto place = static_cast<std::size_t>(was.place);
      const Tensor value = resolve(At(leaf.tensor(), loc()), name);
      const Type &before = type_of(carried[place]), &after = type_of(value);
      if (!same_type(before, after))
        fail(name, loc(), name_of("the state", state, i), " is ", text_of(before), " where the body begins and ",
             text_of(after), " where it ends: a state keeps its shape, dtype and device");
      next[place] = value;
    }
    return next;
  }
  // The tensors of a result of the body, as values of the body.
  std::vector<Tensor> returned(const Leaves& leaves, bool stacks) {
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < leaves.list.leaves.size(); ++i) {
      const Leaf& leaf = leaves.list.leaves[i];
      if (!holds_tensor(leaf.kind)) continue;
      if (!leaf.tensor().defined())
        fail(name, loc(), name_of("what the body returns", leaves, i), " is an undefined tensor");
      if (stacks && (leaf.kind == LeafKind::scalar || leaf.kind == LeafKind::index))
        fail(name, loc(), name_of("what the body returns", leaves, i),
             " is a Scalar or an Index, which can't be stacked: return a tensor");
      values.push_back(resolve(At(leaf.tensor(), loc()), name));
      if (stacks && type_of(values.back()).shape.rank() == max_rank)
        fail(name, loc(), name_of("what the body returns", leaves, i), " has 8 axes, and none is left to stack it");
    }
    return values;
  }

  void put(const Leaves& leaves, std::span<const Tensor> values) const {
    std::size_t next = 0;
    for (const Leaf& leaf : leaves.list.leaves)
      if (holds_tensor(leaf.kind) && leaf.tensor().defined()) leaf.tensor() = values[next++];
  }
  void put_state(const Leaves& leaves, std::span<const Tensor> values) const {
    for (std::size_t i = 0; i < known.size(); ++i)
      if (known[i].place >= 0) leaves.list.leaves[i].tensor() = values[static_cast<std::size_t>(known[i].place)];
  }
};

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
  std::vector<GeneratorState> drawn;
  for (const LoopBody::Drawn& each : body.generators()) {
    drawn.emplace_back(each, s.loc());
    s.carried.push_back(drawn.back().place());
    s.inputs.push_back(each.input);
    outputs.push_back(each.after);
  }
  const std::size_t carries = outputs.size();
  if (carries + ys.size() == 0) fail(s.name, s.loc(), "the body returns no tensor");
  append<Tensor>(outputs, ys);
  std::vector<Tensor> operands = s.carried, inputs = s.inputs;
  append<Tensor>(operands, s.sources), append<Tensor>(inputs, s.slices);
  for (const Tensor& captured : body.captured()) {
    operands.push_back(captured);
    inputs.push_back(body.input_of(captured));
  }
  std::vector<Type> types = types_of(s.carried);
  for (const Tensor& y : ys) types.push_back(stacked(type_of(y), s.length));
  const Scan attributes{static_cast<std::int64_t>(carries), static_cast<std::int64_t>(s.sources.size()), s.length,
                        options.reverse};
  std::shared_ptr<const Graph> graph = body.take(std::move(inputs), std::move(outputs));
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
  std::vector<LoopBody::Drawn> drawn;
  std::vector<Tensor> captured;

  explicit Shared(std::optional<LoopBody> (&bodies)[2]) {
    for (std::optional<LoopBody>& body : bodies) {
      for (const LoopBody::Drawn& each : body->generators())
        if (std::ranges::none_of(drawn, [&](const auto& known) { return known.state == each.state; }))
          drawn.push_back(each);
      for (const Tensor& each : body->captured())
        if (std::ranges::none_of(captured, [&](const Tensor& known) { return known.same(each); }))
          captured.push_back(each);
    }
  }
  // The inputs of a body for them, and the states after it.
  void append_to(LoopBody& body, std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) const {
    for (const LoopBody::Drawn& each : drawn) {
      const auto own = std::ranges::find(body.generators(), each.state, &LoopBody::Drawn::state);
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
  for (const LoopBody::Drawn& each : shared.drawn) operands.push_back(drawn.emplace_back(each, s.loc()).place());
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
  s.bodies[branch]->close();
  if (branch == 0) {
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
    const Type &first = type_of(s.results[0][next]), &second = type_of(s.results[1][next]);
    if (!same_type(first, second))
      fail(s.name, s.loc(), name_of("what a branch returns", result, i), " is ", text_of(first),
           " where it is true and ", text_of(second), " where it is false");
    ++next;
  }
}
void LoopRecorder::end_cond(const Leaves& result) {
  State& s = *state_;
  const Shared shared(s.bodies);
  std::vector<Tensor> operands{s.predicate};
  append<Tensor>(operands, s.carried);
  std::vector<Type> types = types_of(s.results[0]);
  std::vector<GeneratorState> drawn;
  for (const LoopBody::Drawn& each : shared.drawn) {
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

}  // namespace detail
}  // namespace weft
