// A loop or a choice while its bodies are recorded, and the checks of what they return. In: the leaves of states and of
// results, which the user's function reads and replaces. Out: inputs of bodies in the place of tensors, and the tensors
// of a result in the order of the loop's operands.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "record/loops.hpp"
#include "record/random.hpp"
#include "weft/loops.hpp"

namespace weft::detail {

// The value of a number or of a text; empty for others.
std::string bytes_of(const Leaf& leaf);
// `what`, or `what`.path of the leaf.
std::string name_of(const char* what, const Leaves& leaves, std::size_t leaf);
// But for whether they are weak.
bool same_type(const Type& a, const Type& b);
std::string text_of(Type type);
// Throws where too many bodies are open: one that calls itself never ends.
void check_nesting(const char* name, Loc loc);

// A generator's state, which the trace around goes on with. The default generator's is held while the loop is recorded,
// outside of traces.
class GeneratorState {
 public:
  GeneratorState(const LoopBody::GeneratorUse& drawn, Loc loc) : place_(drawn.state) {
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
// Those that a body draws from, in their order. Its inputs for them are added to `inputs`, and what they are after it
// to `outputs`; their places are operands of what has the body.
std::vector<GeneratorState> append_generators(LoopBody& body, Loc loc, std::vector<Tensor>& inputs,
                                              std::vector<Tensor>& outputs);

struct LoopRecorder::State {
  // A leaf as it was when the body was opened: what the body returns in its place is held against it.
  struct OpenedLeaf {
    LeafKind kind;
    std::string bytes;  // of a number or text
    std::uint64_t size;
    int place = -1;  // of a tensor: among the carries
  };

  explicit State(const char* name, Loc loc)
      : name(around.operation ? around.operation : name), call(name, loc), here(call.loc()) {}

  const BodyPlace around = recorded_around();
  const char* const name;
  Operation call;
  const Loc here;                 // the user's line
  std::vector<OpenedLeaf> known;  // leaves of the state
  std::vector<Tensor> carried, inputs;
  std::vector<Tensor> sources, slices;
  Dim length = 0;
  std::optional<LoopBody> bodies[2];
  std::vector<Tensor> results[2];  // of the bodies
  Tensor condition, predicate;

  Loc loc() const { return here; }

  // A body is recorded before it runs, so one that opens itself again would never end.
  LoopBody& open(int body);
  // As values of the trace that is recorded.
  void resolve_all(const LeafList& list) const;
  // Each tensor of the state, and an input of the body in its place.
  void carry(const Leaves& state, LoopBody& body);
  static void bind(const LeafList& list, LoopBody& body, std::vector<Tensor>& inputs);
  // What the body returns as the next state, in the order of the carries.
  std::vector<Tensor> next_state(const Leaves& state);
  // The tensors of a result of the body, as values of the body.
  std::vector<Tensor> returned(const Leaves& leaves, bool stacks);

  void put(const Leaves& leaves, std::span<const Tensor> values) const;
  void put_state(const Leaves& leaves, std::span<const Tensor> values) const;
};

}  // namespace weft::detail
