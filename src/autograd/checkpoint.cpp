// Records checkpointed functions: what they do is the body of a call, whose operands are all that they use. The
// derivative of such a call (autograd/call.cpp) is a call as well, of a recomputation of its own.
#include "weft/checkpoint.hpp"

#include <optional>

#include "ir/host_function.hpp"
#include "record/composite.hpp"
#include "record/loop_state.hpp"

namespace weft {

namespace detail {

void require_segments(std::int64_t segments, Loc loc) {
  if (segments < 1) fail("checkpoint_sequential", loc, "the number of segments must be positive, it is ", segments);
}

struct CheckpointRecorder::State {
  const BodyPlace around = recorded_around();
  Operation call;
  const Loc here;              // the user's line
  std::vector<Tensor> before;  // tensors of the state
  std::optional<LoopBody> body;

  explicit State(Loc loc) : call("checkpoint", loc), here(call.loc()) {}
};

CheckpointRecorder::CheckpointRecorder(const LeafList& state, Loc loc) : state_(new State(loc)) {
  State& s = *state_;
  for (const Leaf& leaf : state.leaves)
    if (holds_tensor(leaf.kind)) s.before.push_back(leaf.tensor());
  try {
    check_nesting("checkpoint", s.here);
    s.body.emplace(s.around, s.here);
  } catch (...) {
    delete state_;
    throw;
  }
}
CheckpointRecorder::~CheckpointRecorder() { delete state_; }

void CheckpointRecorder::restore(const LeafList& state) noexcept {
  std::size_t i = 0;
  for (const Leaf& leaf : state.leaves)
    if (holds_tensor(leaf.kind) && i < state_->before.size()) leaf.tensor() = state_->before[i++];
}

void CheckpointRecorder::end(const LeafList& returned, const LeafList& state) {
  State& s = *state_;
  const Loc loc = s.here;
  std::vector<Tensor*> places;
  std::vector<Tensor> outputs;
  const auto add = [&](Tensor& place) {
    outputs.push_back(resolve(At(place, loc), "checkpoint"));
    places.push_back(&place);
  };
  for (const Leaf& leaf : returned.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) add(leaf.tensor());
  if (outputs.empty()) fail("checkpoint", loc, "the function returns no tensor");
  std::size_t count = 0;
  for (const Leaf& leaf : state.leaves) {
    if (!holds_tensor(leaf.kind)) continue;
    const Tensor before = count < s.before.size() ? s.before[count] : Tensor();
    ++count;
    if (leaf.tensor().defined() && !(before.defined() && leaf.tensor().same(before))) add(leaf.tensor());
  }
  if (count != s.before.size()) fail("checkpoint", loc, "the function changes how many tensors an argument holds");
  s.body->close();
  std::vector<Tensor> operands, inputs;
  std::vector<GeneratorState> drawn = append_generators(*s.body, loc, inputs, outputs);
  for (GeneratorState& each : drawn) {
    operands.push_back(each.place());
    places.push_back(&each.place());
  }
  s.body->append_captured(operands, inputs);
  const auto callee = std::make_shared<Callee>(Callee{called("checkpoint"), {}});
  callee->body = *s.body->take(std::move(inputs), std::move(outputs));
  for (const Tensor& value : callee->body.nodes)
    if (runs_once(*value.node()))
      fail("checkpoint", loc, "the function calls code of the program (", made_at(*value.node()),
           "), which must not run again: call it outside, and make what it gives an argument");
  const Tensor value = record_call(callee, operands, loc);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = Tensor(value.node(), static_cast<unsigned>(i));
  s.body.reset();
  refuse_held(callee->body, "checkpoint", loc,
              "make what it changes an argument, checkpoint([](Layer& layer, const Tensor& x) { return layer(x); })"
              "(layer, x)");
}

}  // namespace detail
}  // namespace weft
