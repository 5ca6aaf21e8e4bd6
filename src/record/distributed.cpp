#include "weft/distributed.hpp"

#include <algorithm>
#include <utility>

#include "record/record.hpp"
#include "record/shards.hpp"
#include "runtime/processes/process_group.hpp"

namespace weft {
namespace distributed {

namespace {

using Group = runtime::ProcessGroup;

// The one group that there is yet: all processes. Others are parts of a mesh (weft has none).
const std::string world = "world";

Collective of_world(const Group& group) { return {intern_text(world), group.own().size}; }
RootedCollective of_world(const Group& group, int root, const char* operation, Loc loc) {
  if (root < 0 || root >= group.own().size)
    fail(operation, loc, "there is no rank ", root, " among ", counted(group.own().size, "process", "processes"));
  return {intern_text(world), group.own().size, root};
}

// What is added, so that the sum is the reduction.
Tensor addend(const Tensor& x, Reduction reduction, const char* operation, Loc loc) {
  const DType dtype = type_of(x).dtype;
  if (dtype == DType::boolean) fail(operation, loc, "there is no sum of bool: cast to i32");
  if (reduction == Reduction::mean && !is_floating(dtype))
    fail(operation, loc, "a mean of ", info(dtype).name, " is no ", info(dtype).name, ": cast to a floating dtype");
  const Group* const group = runtime::process_group();
  return group && reduction == Reduction::mean ? x / group->own().size : x;
}
Tensor summed(const Tensor& x, const Group& group, Loc loc) {
  const Collective attributes = of_world(group);
  return record(Op::all_reduce_wait, {record(Op::all_reduce_start, {x}, attributes, {}, loc)}, attributes, {}, loc);
}

}  // namespace

void init() { runtime::join_process_group(); }
int rank() { return runtime::own_member().rank; }
int size() { return runtime::own_member().size; }
int local_rank() { return runtime::own_member().local_rank; }

Tensor all_reduce(At x, Reduction reduction) {
  const Operation call("all_reduce", x.loc);
  const Tensor value = addend(resolve(x, "all_reduce"), reduction, "all_reduce", call.loc());
  const Group* const group = runtime::process_group();
  return group ? summed(value, *group, call.loc()) : value;
}

Tensor broadcast(At x, int root) {
  const Operation call("broadcast", x.loc);
  const Tensor value = resolve(x, "broadcast");
  const Group* const group = runtime::process_group();
  if (!group) return value;
  return record(Op::broadcast, {value}, of_world(*group, root, "broadcast", call.loc()), {}, call.loc());
}

Tensor all_gather(At x) {
  const Operation call("all_gather", x.loc);
  const Tensor value = resolve(x, "all_gather");
  if (value.rank() == 0) fail("all_gather", call.loc(), "a tensor of no axes has no axis 0: reshape it to {1}");
  const Group* const group = runtime::process_group();
  return group ? record(Op::all_gather, {value}, of_world(*group), {}, call.loc()) : value;
}

Tensor reduce_scatter(At x, Reduction reduction) {
  const Operation call("reduce_scatter", x.loc);
  const Tensor value = addend(resolve(x, "reduce_scatter"), reduction, "reduce_scatter", call.loc());
  if (value.rank() == 0) fail("reduce_scatter", call.loc(), "a tensor of no axes has no axis 0");
  const Group* const group = runtime::process_group();
  return group ? record(Op::reduce_scatter, {value}, of_world(*group), {}, call.loc()) : value;
}

void barrier(Loc loc) {
  const Operation call("barrier", loc);
  if (recorder().trace())
    fail("barrier", call.loc(),
         "it waits for the other processes, and what is recorded here runs later: call it "
         "outside of the compiled function");
  if (Group* const group = runtime::process_group()) group->exchange("", "a barrier");
}

}  // namespace distributed

namespace detail {
namespace {

// The tensors of one bucket, as one tensor that is reduced. Each is divided where it is computed.
void average_together(std::span<Tensor* const> tensors, Loc loc) {
  using distributed::Reduction;
  if (tensors.size() == 1) {
    *tensors[0] = distributed::all_reduce(At(*tensors[0], loc), Reduction::mean);
    return;
  }
  std::vector<Tensor> parts;
  for (const Tensor* const each : tensors) {
    const Tensor part = *each / distributed::size();
    parts.push_back(reshape_to(part, Shape::of(type_of(part).shape.element_count()), loc));
  }
  const Tensor bucket = distributed::all_reduce(At(concat(parts, 0, loc), loc));
  Dim begin = 0;
  for (Tensor* const each : tensors) {
    const Shape shape = type_of(*each).shape;
    const Dim end = begin + shape.element_count();
    *each = reshape_to(slice(At(bucket, loc), 0, begin, end), shape, loc);
    begin = end;
  }
}

}  // namespace

// Buckets follow the order in which the tensors were recorded, which is the same in every process: that of a
// derivative. A tensor that is larger than a bucket comes two earlier. The gradient of a table of words is known last,
// and takes long to send: what the buckets after it wait for, gradients that no other waits for, is computed meanwhile.
void average(const LeafList& values, const distributed::Buckets& buckets, Loc loc) {
  const LooseComposite call("average", loc);
  if (!runtime::process_group()) return;
  std::vector<Tensor*> tensors;
  for (const Leaf& leaf : values.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined() && is_floating(leaf.tensor().dtype())) {
      if (leaf.shard())  // of the sum already
        leaf.tensor() = leaf.tensor() / distributed::size();
      else
        tensors.push_back(&leaf.tensor());
    }
  std::ranges::stable_sort(tensors, {}, [](const Tensor* each) { return each->node()->sequence; });
  constexpr std::ptrdiff_t earlier = 2;
  std::vector<std::vector<Tensor*>> all;
  std::vector<Tensor*> bucket;
  std::int64_t bytes = 0;
  const auto close = [&] {
    if (bucket.empty()) return;
    const bool is_large = bytes > buckets.bytes;
    const auto place = all.end() - (is_large ? std::min(earlier, std::ssize(all)) : 0);
    all.insert(place, std::exchange(bucket, {}));
    bytes = 0;
  };
  for (Tensor* const each : tensors) {
    const Type& type = type_of(*each);
    const Dim count = type.shape.element_count();
    const std::int64_t own =
        count.is_constant() ? static_cast<std::int64_t>(storage_bytes(type.dtype, count.constant())) : buckets.bytes;
    const bool fits = bucket.empty() || (type_of(*bucket[0]).dtype == type.dtype &&
                                         type_of(*bucket[0]).device == type.device && bytes + own <= buckets.bytes);
    if (!fits) close();
    bucket.push_back(each);
    bytes += own;
  }
  close();
  for (const std::vector<Tensor*>& each : all) average_together(each, call.loc());
}

void replicate(const LeafList& values, int root, Loc loc) {
  const LooseComposite call("replicate", loc);
  for (const Leaf& leaf : values.leaves)
    if (leaf.shard())
      fail("replicate", call.loc(), "a parameter is ", to_string(interned_shard(leaf.shard())),
           ", and others hold other parts: replicate the model before fully_shard");
    else if (holds_tensor(leaf.kind) && leaf.tensor().defined())
      leaf.tensor() = distributed::broadcast(At(leaf.tensor(), call.loc()), root);
}

}  // namespace detail
}  // namespace weft
