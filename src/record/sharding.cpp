// Parameters in parts: fully_shard cuts them, gathered() records what puts them together again, a call for each group
// of them. Its derivative is one sum of all gradients of the group, of which each process gets its part.
#include <algorithm>
#include <span>
#include <sstream>

#include "record/composite.hpp"
#include "record/evaluate.hpp"
#include "record/record_body.hpp"
#include "record/shards.hpp"
#include "runtime/processes/process_group.hpp"
#include "weft/distributed.hpp"

namespace weft::detail {
namespace {

int processes() {
  const runtime::ProcessGroup* const group = runtime::process_group();
  return group ? group->own().size : 1;
}
Collective world() { return {intern_text("world"), processes()}; }
std::int64_t number(Dim size) { return static_cast<std::int64_t>(size); }
std::int64_t length_of(const Tensor& vector) { return number(type_of(vector).shape[0]); }

// Parts [k], of each process, as vectors [processes * k]: sent as one vector, in which each process has a row.
void record_gather(std::span<const Tensor> parts, std::span<Tensor> wholes) {
  const std::int64_t count = processes();
  if (parts.size() == 1) {
    wholes[0] = record(Op::all_gather, {parts[0]}, world(), {}, {});
    return;
  }
  const Tensor all = record(Op::all_gather, {concat(parts)}, world(), {}, {});
  const Tensor rows = reshape(all, {count, -1});
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t length = length_of(parts[i]);
    wholes[i] = reshape(slice(rows, 1, begin, begin + length), {count * length});
    begin += length;
  }
}

// The adjoint: gradients of the vectors as rows of one matrix, of whose sum over all processes each gets its row.
void scatter_gradients(const CallValues& values, std::span<Tensor> gradients) {
  const std::int64_t count = processes();
  std::vector<Tensor> rows;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < values.operands.size(); ++i) {
    if (!values.wanted[i] || !values.gradients[i].defined()) continue;
    rows.push_back(reshape(values.gradients[i], {count, length_of(values.operands[i])}));
    places.push_back(i);
  }
  if (rows.empty()) return;
  const Tensor together = reshape(rows.size() == 1 ? rows[0] : concat(rows, 1), {-1});
  const Tensor own = record(Op::reduce_scatter, {together}, world(), {}, {});
  std::int64_t begin = 0;
  for (const std::size_t place : places) {
    const std::int64_t length = length_of(values.operands[place]);
    gradients[place] = slice(own, 0, begin, begin + length);
    begin += length;
  }
}

// Whether two parts, one after the other among a model's leaves, are gathered together.
bool are_together(const ShardedPlace& first, const ShardedPlace& second) {
  const Type &a = type_of(*first.tensor), &b = type_of(*second.tensor);
  const Shard &from = interned_shard(*first.shard), &to = interned_shard(*second.shard);
  return !to.begins && from.reshards == to.reshards && a.dtype == b.dtype && a.device == b.device;
}

void gather_together(std::span<const ShardedPlace> places, Loc loc) {
  std::vector<Tensor> parts, wholes(places.size());
  for (const ShardedPlace& place : places) {
    const Shard& shard = interned_shard(*place.shard);
    parts.push_back(resolve(At(*place.tensor, loc), "gathered"));
    const Type& type = type_of(parts.back());
    if (shard.processes != processes())
      fail("gathered", loc, "the model is in parts of ", shard.processes, " processes, and there are ", processes());
    if (type.shape.rank() != 1 || !(type.shape[0] == Dim(shard.length())))
      fail("gathered", loc, "a tensor that is ", to_string(shard), " must be [", shard.length(), "], it is ",
           to_string(type));
  }
  if (recorder().trace() && !in_body()) {
    const auto body = [](std::span<const Tensor> operands, std::span<Tensor> results) {
      record_gather(operands, results);
    };
    composite(called("gather_parts"), parts, wholes, loc, body, scatter_gradients);
    if (interned_shard(*places[0].shard).reshards) mark_as_recomputation(wholes[0]);
  } else {
    record_gather(parts, wholes);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Shard& shard = interned_shard(*places[i].shard);
    Shape shape;
    for (const std::int64_t size : shard.sizes) shape.push_back(size);
    *places[i].tensor = reshape_to(slice(At(wholes[i], loc), 0, 0, shard.elements()), shape, loc);
    *places[i].shard = 0;
  }
}

// A copy, so that the memory of the whole tensor is freed: a concatenation of one slice would be a view of it.
Tensor own_part(const Tensor& whole, const Shard& shard, Loc loc) {
  const std::int64_t elements = shard.elements(), length = shard.length();
  const std::int64_t begin = std::min(runtime::own_member().rank * length, elements);
  const std::int64_t end = std::min(begin + length, elements), middle = begin + (end - begin) / 2;
  const Type& type = type_of(whole);
  const Tensor row = reshape_to(whole, Shape::of(elements), loc);
  const Tensor rest = zeros({length - (end - begin)}, {type.dtype, type.device}, loc);
  const Tensor part =
      concat({slice(At(row, loc), 0, begin, middle), slice(At(row, loc), 0, middle, end), rest}, 0, loc);
  evaluate(std::span(&part, 1), loc);
  return part;
}

}  // namespace

struct ParameterSharder::State {
  weft::Operation call;
  const distributed::Shards shards;
  std::vector<Param*> parameters;
  std::vector<std::string> texts;  // path and type of each
  State(const distributed::Shards& asked, Loc loc) : call("fully_shard", loc), shards(asked) {}

  // Throws where another process shards something else.
  void compare() const {
    std::string own = concat_text(shards.bytes, " bytes together", shards.reshard_after_forward ? "" : ", held");
    for (const std::string& text : texts) own += "\n" + text;
    const std::vector<std::string> all = runtime::process_group()->exchange(own, "a fully_shard");
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      std::istringstream first(all[0]), other(all[rank]);
      for (std::string here = "", there = ""; here == there;) {
        if (!std::getline(first, here)) here = "no more parameters";
        if (!std::getline(other, there)) there = "no more parameters";
        if (here != there)
          fail("fully_shard", call.loc(), "the processes have different models: rank 0 has ", here, ", rank ", rank,
               " has ", there);
      }
    }
  }
};

ParameterSharder::ParameterSharder(const distributed::Shards& shards, Loc loc) : state_(new State(shards, loc)) {}
ParameterSharder::~ParameterSharder() { delete state_; }

void ParameterSharder::add(const char* path, Param& parameter) {
  if (parameter.shard || parameter.tensor().node()->type.shape.element_count().same(Dim(0))) return;
  state_->parameters.push_back(&parameter);
  Type type = type_of(parameter.tensor());
  type.device.index = 0;  // which device it is differs between processes
  state_->texts.push_back(concat_text(path, " ", to_string(type)));
}

void ParameterSharder::run() {
  State& s = *state_;
  const Loc loc = s.call.loc();
  if (s.shards.bytes < 1) fail("fully_shard", loc, "bytes must be positive, it is ", s.shards.bytes);
  if (recorder().trace())
    fail("fully_shard", loc, "a compiled function can't change how its arguments are held: call it outside");
  if (!runtime::process_group()) return;
  s.compare();
  std::int64_t bytes = 0;
  const Type* before = nullptr;
  for (Param* const parameter : s.parameters) {
    const Tensor whole = parameter->tensor();
    const Type& type = type_of(whole);
    Shard shard{.processes = processes(), .reshards = s.shards.reshard_after_forward};
    for (const Dim size : type.shape) shard.sizes.push_back(number(size));
    const auto own = static_cast<std::int64_t>(storage_bytes(type.dtype, shard.elements()));
    shard.begins =
        !before || before->dtype != type.dtype || before->device != type.device || bytes + own > s.shards.bytes;
    bytes = shard.begins ? own : bytes + own;
    parameter->tensor() = own_part(whole, shard, loc);
    parameter->shard = intern_shard(shard);
    before = &type_of(parameter->tensor());
  }
}

void gather_places(const GrowingList<ShardedPlace>& places, const distributed::GatherOptions& options, Loc loc) {
  const weft::Operation call("gathered", loc);
  if (options.dtype && !is_floating(*options.dtype))
    fail("gathered", call.loc(), "the dtype must be a floating one, it is ", info(*options.dtype).name);
  std::vector<ShardedPlace> parts;
  for (const ShardedPlace& place : places) {
    if (options.dtype && place.is_parameter && is_floating(type_of(*place.tensor).dtype))
      *place.tensor = cast(At(*place.tensor, call.loc()), *options.dtype);
    if (*place.shard) parts.push_back(place);
  }
  const std::span<const ShardedPlace> all(parts);
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    end = begin + 1;
    while (end < all.size() && are_together(all[end - 1], all[end])) ++end;
    gather_together(all.subspan(begin, end - begin), call.loc());
  }
}

Tensor part_of(const Tensor& whole, std::uint32_t shard, const char* path, Loc loc) {
  const weft::Operation call("take_parts", loc);
  if (recorder().trace())
    fail("take_parts", call.loc(),
         "a part is that of a process, and a compiled function is the same in all: call it outside");
  const Shard& known = interned_shard(shard);
  const Shape& shape = type_of(whole).shape;
  bool fits = shape.rank() == static_cast<int>(known.sizes.size());
  for (int axis = 0; fits && axis < shape.rank(); ++axis)
    fits = shape[axis] == Dim(known.sizes[static_cast<std::size_t>(axis)]);
  if (!fits)
    fail("take_parts", call.loc(), path, " is ", to_string(known), ", what it is taken from is ",
         to_string(type_of(whole)));
  return own_part(whole, known, call.loc());
}

}  // namespace weft::detail
