#include "record/loop_state.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "record/leaf_paths.hpp"

namespace weft::detail {
namespace {

// How many loops and choices may be inside each other. Each takes some KB of the stack while it is recorded.
constexpr std::ptrdiff_t nesting_limit = 64;

}  // namespace

std::string bytes_of(const Leaf& leaf) {
  const bool has = leaf.kind == LeafKind::number || leaf.kind == LeafKind::bytes || leaf.kind == LeafKind::text;
  return has && leaf.address ? std::string(static_cast<const char*>(leaf.address), leaf.size) : std::string();
}

std::string name_of(const char* what, const Leaves& leaves, std::size_t leaf) {
  const std::string path = leaf_path(leaves.type, leaves.list, leaf);
  return path.empty() ? what : concat_text(what, "'s ", path);
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

void check_nesting(const char* name, Loc loc) {
  if (std::ranges::count_if(recorder().traces, &Trace::is_loop) >= nesting_limit)
    fail(name, loc, "is inside ", nesting_limit,
         " loops and choices, the limit: recording a body that calls itself never ends");
}

std::vector<GeneratorState> append_generators(LoopBody& body, Loc loc, std::vector<Tensor>& inputs,
                                              std::vector<Tensor>& outputs) {
  std::vector<GeneratorState> drawn;
  for (const LoopBody::GeneratorUse& each : body.generators()) {
    drawn.emplace_back(each, loc);
    inputs.push_back(each.input);
    outputs.push_back(each.after);
  }
  return drawn;
}

LoopBody& LoopRecorder::State::open(int body) {
  check_nesting(name, here);
  return bodies[body].emplace(around, here);
}
void LoopRecorder::State::resolve_all(const LeafList& list) const {
  for (const Leaf& leaf : list.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) leaf.tensor() = resolve(At(leaf.tensor(), loc()), name);
}
void LoopRecorder::State::carry(const Leaves& state, LoopBody& body) {
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
void LoopRecorder::State::bind(const LeafList& list, LoopBody& body, std::vector<Tensor>& inputs) {
  for (const Leaf& leaf : list.leaves) {
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    inputs.push_back(body.input(type_of(leaf.tensor())));
    leaf.tensor() = inputs.back();
  }
}
std::vector<Tensor> LoopRecorder::State::next_state(const Leaves& state) {
  const GrowingList<Leaf>& leaves = state.list.leaves;
  std::vector<Tensor> next(carried.size());
  if (leaves.size() != known.size())
    fail(name, loc(), "the body changes lengths, presence or alternatives in its state");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = leaves[i];
    const OpenedLeaf& was = known[i];
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
    // Where sizes are symbolic, equal ones may be written in other ways.
    next[place] = RecordingBuilder().reshape(value, before.shape);
  }
  return next;
}
std::vector<Tensor> LoopRecorder::State::returned(const Leaves& leaves, bool stacks) {
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

void LoopRecorder::State::put(const Leaves& leaves, std::span<const Tensor> values) const {
  std::size_t next = 0;
  for (const Leaf& leaf : leaves.list.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) leaf.tensor() = values[next++];
}
void LoopRecorder::State::put_state(const Leaves& leaves, std::span<const Tensor> values) const {
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i].place >= 0) leaves.list.leaves[i].tensor() = values[static_cast<std::size_t>(known[i].place)];
}

}  // namespace weft::detail
