// The erased half of vmap. In: the leaves of the arguments, and of what the function returned for one example. Out: the
// results for all examples in the places of those of one. The function is recorded as the body of a loop is, and its
// graph is then batched in the trace around.
#include "weft/vmap.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "batching/batch.hpp"
#include "record/loop_state.hpp"

namespace weft {

std::optional<int> InAxes::of(std::size_t argument, std::size_t count, Loc loc) const {
  if (all_) return all_;
  if (each_.size() != count)
    fail("vmap", loc, "in_axes has ", counted(static_cast<std::int64_t>(each_.size()), "axis", "axes"), ", there ",
         count == 1 ? "is " : "are ", counted(static_cast<std::int64_t>(count), "argument", "arguments"));
  return each_[argument];
}

namespace detail {
namespace {

constexpr RecordingBuilder build;

// The value with axis `from` as axis `to`.
Tensor with_axis_moved(const Tensor& value, int from, int to) { return from == to ? value : movedim(value, from, to); }
Type of_one(Type type) {
  Shape shape;
  for (int i = 1; i < type.shape.rank(); ++i) shape.push_back(type.shape[i]);
  type.shape = shape;
  return type;
}

}  // namespace

struct VmapRecorder::State {
  State(const VmapOptions& options, std::size_t arguments, Loc loc)
      : options(options), arguments(arguments), call("vmap", loc), here(call.loc()) {}

  const VmapOptions options;
  const std::size_t arguments;
  const BodyPlace around = recorded_around();
  Operation call;
  const Loc here;
  std::size_t added = 0;
  Dim size = 0;
  std::string first;            // what has this size
  std::vector<Tensor*> places;  // of the leaves that hold examples
  std::vector<Batched> values;  // theirs, with the examples along axis 0
  std::vector<Tensor> inputs;   // of the body
  std::optional<LoopBody> body;
};

VmapRecorder::VmapRecorder(const VmapOptions& options, std::size_t arguments, Loc loc)
    : state_(new State(options, arguments, loc)) {}
VmapRecorder::~VmapRecorder() { delete state_; }

void VmapRecorder::add(const Leaves& argument) {
  State& s = *state_;
  const std::size_t position = s.added++;
  const std::optional<int> axis = s.options.in_axes.of(position, s.arguments, s.here);
  if (!axis) return;
  for (std::size_t i = 0; i < argument.list.leaves.size(); ++i) {
    const Leaf& leaf = argument.list.leaves[i];
    if (!holds_tensor(leaf.kind) || leaf.kind >= LeafKind::scalar || !leaf.tensor().defined()) continue;
    Tensor value = resolve(At(leaf.tensor(), s.here), "vmap");
    const Type type = type_of(value);
    const int rank = type.shape.rank(), own = *axis < 0 ? *axis + rank : *axis;
    const std::string name = name_of(concat_text("argument ", position).c_str(), argument, i);
    if (own < 0 || own >= rank)
      fail("vmap", s.here, name, " is ", text_of(type), ", which has no axis ", *axis, " for the examples",
           rank == 0 ? ": an argument that is the same for all of them has the axis std::nullopt in in_axes" : "");
    const std::string where = concat_text("axis ", own, " of ", name, ", ", text_of(type));
    if (s.values.empty())
      s.size = type.shape[own], s.first = where;
    else if (!(type.shape[own] == s.size))
      fail("vmap", s.here, "the numbers of examples differ: ", dims::to_string(s.size), " along ", s.first, ", and ",
           dims::to_string(type.shape[own]), " along ", where);
    value = with_axis_moved(value, own, 0);
    Shape shape = type_of(value).shape;
    shape[0] = s.size;
    s.values.push_back({build.expand(value, shape), true});
    s.places.push_back(&leaf.tensor());
  }
}

void VmapRecorder::begin() {
  State& s = *state_;
  if (s.values.empty())
    fail("vmap", s.here, "no argument holds examples: one tensor at least must have an axis in in_axes");
  check_nesting("vmap", s.here);
  LoopBody& body = s.body.emplace(s.around, s.here, LoopBody::Of::example);
  for (std::size_t i = 0; i < s.places.size(); ++i)
    *s.places[i] = s.inputs.emplace_back(body.input(of_one(type_of(s.values[i].value))));
}

void VmapRecorder::end(const Leaves& results) {
  State& s = *state_;
  LoopBody& body = *s.body;
  std::vector<Tensor> outputs;
  std::vector<std::size_t> leaves;
  for (std::size_t i = 0; i < results.list.leaves.size(); ++i) {
    const Leaf& leaf = results.list.leaves[i];
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    outputs.push_back(resolve(At(leaf.tensor(), s.here), "vmap"));
    leaves.push_back(i);
  }
  body.close();
  std::vector<Tensor> inputs = std::move(s.inputs);
  std::vector<Batched> operands = std::move(s.values);
  std::vector<GeneratorState> drawn = append_generators(body, s.here, inputs, outputs);
  std::vector<Tensor> of_all;  // operands in which examples do not differ
  for (GeneratorState& each : drawn) of_all.push_back(each.place());
  body.append_captured(of_all, inputs);
  for (Tensor& each : of_all) operands.push_back({std::move(each), false});
  const std::shared_ptr<const Graph> graph = body.take(std::move(inputs), std::move(outputs));
  const Batcher batcher(s.size, s.options.randomness);
  std::vector<Batched> found = batcher.run(*graph, operands);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const Batched& state = found[leaves.size() + i];
    if (state.differs)
      fail("vmap", s.here,
           "examples differ in how often a generator is drawn from, so that it has no one state afterwards: draw "
           "outside "
           "of the choice");
    drawn[i].place() = state.value;
  }
  for (Tensor* const place : s.places) *place = Tensor();
  s.body.reset();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = results.list.leaves[leaves[i]];
    const Type one = type_of(graph->outputs[i]);
    const std::string name = name_of("what the function returns", results, leaves[i]);
    if (leaf.kind >= LeafKind::scalar) {
      if (found[i].differs)
        fail("vmap", s.here, name, " is a Scalar or an Index, and examples differ in it: return a tensor");
      leaf.tensor() = found[i].value;
      continue;
    }
    const int rank = one.shape.rank() + 1,
              axis = s.options.out_axis < 0 ? s.options.out_axis + rank : s.options.out_axis;
    if (rank > max_rank) fail("vmap", s.here, name, " has 8 axes, and none is left for the examples");
    if (axis < 0 || axis >= rank)
      fail("vmap", s.here, name, " is ", text_of(one), " for one example, and axis ", s.options.out_axis,
           " for the examples is not one of its ", rank);
    leaf.tensor() = with_axis_moved(batcher.all(found[i]), 0, axis);
  }
  refuse_held(*graph, "vmap", s.here,
              "return the tensor instead, or, where it is the same for all examples, compute it before vmap");
}

void refuse_no_model(Loc loc) { fail("stack_module_state", loc, "there is no model"); }
void stack_states(const Leaves& stacked, const LeafList* models, std::size_t count, Loc loc) {
  const Operation call("stack_module_state", loc);
  const GrowingList<Leaf>& first = models[0].leaves;
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<Tensor> parts;
    for (std::size_t m = 0; m < count; ++m) {
      const GrowingList<Leaf>& leaves = models[m].leaves;
      const auto refuse = [&](const auto&... words) {
        fail("stack_module_state", call.loc(), name_of("the model", stacked, i), " ", words..., " in model ", m,
             " of the list");
      };
      if (leaves.size() != first.size() || leaves[i].kind != first[i].kind) refuse("is another");
      if (!holds_tensor(first[i].kind)) {
        if (leaves[i].size != first[i].size || bytes_of(leaves[i]) != bytes_of(first[i])) refuse("is another");
        continue;
      }
      const bool defined = leaves[i].tensor().defined();
      if (defined != first[i].tensor().defined()) refuse("is undefined in the first or");
      if (!defined) continue;
      const Tensor value = resolve(At(leaves[i].tensor(), call.loc()), "stack_module_state");
      if (m > 0 && !same_type(type_of(value), type_of(parts[0])))
        refuse("is ", text_of(type_of(parts[0])), " in the first one, and ", text_of(type_of(value)));
      parts.push_back(value);
    }
    if (!parts.empty()) stacked.list.leaves[i].tensor() = stack(parts);
  }
}

}  // namespace detail
}  // namespace weft
