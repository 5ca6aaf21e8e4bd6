// The erased half of jvp, vjp and linearize. In: the flattened leaves of what f is differentiated at, and of what it
// returned. Out: tangents in the places of leaves, or a linear function: a graph over its arguments, whose captured
// operands are the values of f that it reads. Invariant: such a function needs no level to be open, since what it reads
// are values.
#include "weft/transforms.hpp"

#include <atomic>

#include "autograd/backward.hpp"
#include "autograd/forward.hpp"
#include "autograd/zeros.hpp"
#include "base/fail.hpp"
#include "batching/batch.hpp"
#include "record/computed_call.hpp"
#include "record/leaf_paths.hpp"
#include "record/loops.hpp"
#include "record/record_body.hpp"

namespace weft::detail {
namespace {

bool varies(const Leaf& leaf) {
  return holds_tensor(leaf.kind) && leaf.kind != LeafKind::index && leaf.tensor().defined() &&
         is_floating(type_of(leaf.tensor()).dtype);
}
std::vector<std::size_t> varying(const LeafList& leaves) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < leaves.leaves.size(); ++i)
    if (varies(leaves.leaves[i])) positions.push_back(i);
  return positions;
}

// What tells two values of one C++ type apart besides their tensors and numbers.
struct Part {
  LeafKind kind;
  std::uint64_t size;
};
std::vector<Part> parts_of(const LeafList& leaves) {
  std::vector<Part> parts;
  for (const Leaf& leaf : leaves.leaves) parts.push_back({leaf.kind, is_count(leaf.kind) ? leaf.size : 0});
  return parts;
}

// Throws unless the leaves at these positions are undefined or of these types.
void require_like(const char* operation, Loc loc, const char* what, const LeafList& given,
                  const TypeDescription& description, std::span<const Part> parts,
                  std::span<const std::size_t> positions, std::span<const Type> types) {
  bool same = given.leaves.size() == parts.size();
  for (std::size_t i = 0; same && i < parts.size(); ++i)
    same = given.leaves[i].kind == parts[i].kind && (!is_count(parts[i].kind) || given.leaves[i].size == parts[i].size);
  if (!same)
    fail(operation, loc, what, " has other lengths, keys, presence or alternatives than the value that it belongs to");
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const Tensor& value = given.leaves[positions[i]].tensor();
    if (!value.defined()) continue;
    const Type &type = type_of(value), &expected = types[i];
    if (type.dtype == expected.dtype && type.shape == expected.shape) continue;
    const std::string name = leaf_path(description, given, positions[i]);
    fail(operation, loc, what, name.empty() ? "" : " of ", name, " is ", to_string(type),
         ", the value that it belongs to is ", to_string(expected));
  }
}

}  // namespace

void drop_tensors(const LeafList& leaves) {
  for (const Leaf& leaf : leaves.leaves)
    if (holds_tensor(leaf.kind)) leaf.tensor() = Tensor();
}

// ---- linear functions -----------------------------------------------------------------------------------------------

struct LinearMap::State {
  std::atomic<std::size_t> references = 1;
  const char* operation;
  std::vector<Part> parts;                     // of the argument
  std::vector<std::size_t> positions, places;  // of the leaves of the argument, and of the result
  std::vector<Type> types, result_types;       // of these leaves
  std::shared_ptr<const Graph> body;           // its inputs: these leaves, then what is captured
  std::vector<Tensor> captured;
  std::vector<int> result_at;  // by place: the output of the body, or -1: zero

  // Undefined results are zero.
  std::vector<Tensor> run(std::span<const Tensor> arguments) const {
    std::vector<Tensor> all(arguments.begin(), arguments.end()), results(places.size());
    all.insert(all.end(), captured.begin(), captured.end());
    const std::vector<Tensor> outputs = record_body(*body, all);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (result_at[i] >= 0) results[i] = outputs[static_cast<std::size_t>(result_at[i])];
    return results;
  }
  std::vector<Tensor> at_rows(std::size_t argument, const Tensor& rows, bool one, Loc loc) const;
  std::vector<Tensor> at_basis(std::size_t argument, std::int64_t chunk, Loc loc) const;
};

LinearMap::LinearMap(const LinearMap& other) noexcept : state_(other.state_) {
  if (state_) state_->references.fetch_add(1, std::memory_order_relaxed);
}
LinearMap::~LinearMap() {
  if (state_ && state_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state_;
}

void LinearMap::apply(const LeafList& argument, const TypeDescription& type, const LeafList& place, Loc loc) const {
  const State& s = *state_;
  const Operation call(s.operation, loc);
  const bool forward = std::string_view(s.operation) == "linearize";
  require_like(s.operation, call.loc(), forward ? "the tangent" : "the cotangent", argument, type, s.parts, s.positions,
               s.types);
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < s.positions.size(); ++i) {
    const Tensor& given = argument.leaves[s.positions[i]].tensor();
    arguments.push_back(given.defined()
                            ? RecordingBuilder().reshape(admitted(given, s.operation, call.loc()), s.types[i].shape)
                            : zeros_of(s.types[i], call.loc()));
  }
  const std::vector<Tensor> results = s.run(arguments);
  for (std::size_t i = 0; i < results.size(); ++i)
    place.leaves[s.places[i]].tensor() = results[i].defined() ? results[i] : zeros_of(s.result_types[i], call.loc());
}

// The results where one argument is each of these rows and the others are 0: for each a matrix, whose rows are its
// elements. All rows at once, as vmap does it, or the one row that there is. Undefined results are zero.
std::vector<Tensor> LinearMap::State::at_rows(std::size_t argument, const Tensor& rows, bool one, Loc loc) const {
  const Dim count = type_of(rows).shape[0];
  std::vector<Tensor> arguments, results(places.size());
  for (const Type& type : types) arguments.push_back(zeros_of(type, loc));
  if (one) {
    arguments[argument] = reshape_to(rows, types[argument].shape, loc);
    results = run(arguments);
  } else {
    arguments[argument] = reshape_to(rows, stacked(types[argument], count).shape, loc);
    std::vector<Batched> operands;
    for (std::size_t i = 0; i < arguments.size(); ++i) operands.push_back({arguments[i], i == argument});
    for (const Tensor& value : captured) operands.push_back({value, false});
    const Batcher batcher(count, Randomness::same);
    const std::vector<Batched> outputs = batcher.run(*body, operands);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (result_at[i] >= 0) results[i] = batcher.all(outputs[static_cast<std::size_t>(result_at[i])]);
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i].defined())
      results[i] = reshape_to(results[i], Shape::of(count, result_types[i].shape.element_count()), loc);
  return results;
}

// The results for each element of one argument being 1 and all else 0: for each a matrix, whose rows are those of a
// Jacobian; undefined ones are zero. `chunk` rows at once, all where it is 0, and one where the function can't be
// batched.
std::vector<Tensor> LinearMap::State::at_basis(std::size_t argument, std::int64_t chunk, Loc loc) const {
  const Type& type = types[argument];
  const Dim count = type.shape.element_count();
  const bool one = !can_batch(*body);
  // Rows `first` to `first + size - 1` of the identity matrix, and zeros after its last one.
  const auto basis = [&](const Tensor& first, Dim size) {
    const Shape shape = Shape::of(size, count);
    Tensor row = weft::positions(0, shape, type.device, loc);
    if (first.defined()) row = row + first;
    return cast(row == weft::positions(1, shape, type.device, loc), type.dtype);
  };
  if (one) chunk = 1;
  if (!one && (chunk == 0 || (count.is_constant() && count.constant() <= chunk)))
    return at_rows(argument, basis({}, count), false, loc);
  const Dim size(chunk), chunks = (count + (size - 1)) / size;
  const Tensor firsts = weft::positions(0, Shape::of(chunks), type.device, loc) * chunk;
  LoopBody scope({loc, operation});
  const Tensor first = scope.input(slice_of(type_of(firsts)));
  const std::vector<Tensor> found = at_rows(argument, basis(first, size), one, loc);
  scope.close();
  std::vector<Tensor> operands{firsts}, inputs{first}, outputs, results(found.size());
  std::vector<Type> stack_types;
  scope.append_captured(operands, inputs);
  for (const Tensor& value : found) {
    if (!value.defined()) continue;
    outputs.push_back(value);
    stack_types.push_back(stacked(type_of(value), chunks));
  }
  if (outputs.empty()) return results;
  const std::vector<Tensor> stacks =
      results_of(record_region(Op::scan, operands, Scan{0, 1, chunks, false}, stack_types,
                               {scope.take(std::move(inputs), std::move(outputs))}, loc));
  for (std::size_t i = 0, next = 0; i < found.size(); ++i)
    if (found[i].defined())
      results[i] =
          slice(reshape_to(stacks[next++], Shape::of(chunks * size, type_of(found[i]).shape[1]), loc), 0, 0, count);
  return results;
}

void LinearMap::jacobian(const LeafList& place, bool forward, const JacobianOptions& options, Loc at) const {
  const State& s = *state_;
  const Operation call(s.operation, at);
  const Loc loc = call.loc();
  if (options.chunk_size < 0) fail(s.operation, loc, "chunk_size is ", options.chunk_size, ": it must be 0 or more");
  const Type& by = forward ? s.types[0] : s.result_types[0];
  const std::vector<Type>& types = forward ? s.result_types : s.types;
  const std::vector<std::size_t>& places = forward ? s.places : s.positions;
  for (const Leaf& leaf : place.leaves)
    if (places.empty() && holds_tensor(leaf.kind) && leaf.tensor().defined())
      fail(s.operation, loc, "what the function returns is ", to_string(type_of(leaf.tensor())),
           ": only floating values have derivatives");
  std::vector<Type> wanted = types;
  for (Type& type : wanted) {
    const int rank = type.shape.rank() + by.shape.rank();
    if (rank > max_rank)
      fail(s.operation, loc, "the derivatives of ", to_string(type), " by ", to_string(by), " would have ", rank,
           " axes, a tensor has ", max_rank, " at most");
    for (const Dim size : by.shape) type.shape.push_back(size);
  }
  std::vector<Tensor> found;
  if (forward) found = s.at_basis(0, options.chunk_size, loc);
  drop_tensors(place);
  for (std::size_t k = 0; k < types.size(); ++k) {
    Tensor rows = forward ? found[k] : s.at_basis(k, options.chunk_size, loc)[0];
    if (rows.defined() && forward) rows = movedim(rows, 0, 1);
    place.leaves[places[k]].tensor() =
        rows.defined() ? reshape_to(rows, wanted[k].shape, loc) : zeros_of(wanted[k], loc);
  }
}

// ---- levels ---------------------------------------------------------------------------------------------------------

TransformLevel::TransformLevel(const char* operation, Loc loc)
    : GradientLevel(operation, loc), joins_(calls_join_levels) {
  const std::string_view name = operation;
  if (name != "jvp" && name != "hvp") calls_join_levels = true;  // the others record a linear function
}
TransformLevel::~TransformLevel() { calls_join_levels = joins_; }

void TransformLevel::require_tangent(const LeafList& bound, const LeafList& tangent,
                                     const TypeDescription& type) const {
  std::vector<Type> types;
  for (const Tensor& variable : variables_) types.push_back(type_of(variable));
  require_like(operation_, loc_, "the tangent", tangent, type, parts_of(bound), positions_, types);
}

void TransformLevel::push(const LeafList& tangent, const LeafList& value, const LeafList& place) const {
  const Operation call(operation_, loc_);
  std::vector<Tensor> tangents, values;
  for (const std::size_t position : positions_) {
    const Tensor& given = tangent.leaves[position].tensor();
    const Shape& shape = type_of(variables_[tangents.size()]).shape;
    tangents.push_back(given.defined() ? RecordingBuilder().reshape(admitted(given, operation_, loc_), shape)
                                       : Tensor());
  }
  const std::vector<std::size_t> positions = varying(value);
  for (const std::size_t position : positions) values.push_back(value.leaves[position].tensor());
  const std::vector<Tensor> found = push_forward(values, variables_, tangents, operation_, loc_);
  for (const Leaf& leaf : place.leaves)
    if (holds_tensor(leaf.kind)) leaf.tensor() = Tensor();
  for (std::size_t i = 0; i < found.size(); ++i)
    place.leaves[positions[i]].tensor() = found[i].defined() ? found[i] : zeros_of(type_of(values[i]), loc_);
}

LinearMap TransformLevel::linearized(const LeafList& bound, const LeafList& value) const {
  return record_map(bound, value, true);
}
LinearMap TransformLevel::transposed(const LeafList& bound, const LeafList& value) const {
  return record_map(bound, value, false);
}

LinearMap TransformLevel::record_map(const LeafList& bound, const LeafList& value, bool forward) const {
  const Operation call(operation_, loc_);
  LinearMap map;
  map.state_ = new LinearMap::State;
  LinearMap::State& s = *map.state_;
  s.operation = operation_;
  s.parts = parts_of(forward ? bound : value);
  const std::vector<std::size_t> returned = varying(value);
  std::vector<Tensor> values;
  for (const std::size_t position : returned) values.push_back(value.leaves[position].tensor());
  const std::vector<Tensor>&from = forward ? variables_ : values, &to = forward ? values : variables_;
  s.positions = forward ? positions_ : returned;
  s.places = forward ? returned : positions_;
  for (const Tensor& each : from) s.types.push_back(type_of(each));
  for (const Tensor& each : to) s.result_types.push_back(type_of(each));
  LoopBody scope({loc_, operation_});
  std::vector<Tensor> inputs, outputs;
  for (Type type : s.types) {
    type.weak = false;
    inputs.push_back(scope.input(type));
  }
  const std::vector<Tensor> found = forward ? push_forward(values, variables_, inputs, operation_, loc_)
                                            : pull_back(values, inputs, variables_, operation_, loc_);
  scope.close();
  for (const Tensor& each : found) {
    s.result_at.push_back(each.defined() ? static_cast<int>(outputs.size()) : -1);
    if (each.defined()) outputs.push_back(each);
  }
  scope.append_captured(s.captured, inputs);
  s.body = scope.take(std::move(inputs), std::move(outputs));
  return map;
}

}  // namespace weft::detail
