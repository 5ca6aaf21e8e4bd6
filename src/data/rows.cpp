// What stages do with tensors: rows of a source copied together, elements stacked, and both on the host.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/record.hpp"
#include "weft/detail/data_stages.hpp"
#include "weft/ops.hpp"

namespace weft::data::detail {
namespace {

using weft::detail::Leaf;
using weft::detail::LeafKind;

struct Bytes {
  std::unique_ptr<Storage, void (*)(Storage*)> held;
  const char* begin;
};
Bytes bytes_of(const Tensor& value, Loc loc) {
  const Contiguous elements = contiguous(value, loc);
  const auto offset = storage_bytes(type_of(value).dtype, elements.offset);
  return {{elements.storage, release}, static_cast<const char*>(elements.storage->data) + offset};
}
std::vector<Tensor*> tensors_of(LeafList& leaves) {
  std::vector<Tensor*> result;
  for (const Leaf& leaf : leaves.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) result.push_back(&leaf.tensor());
  return result;
}
std::size_t size_of(const Type& type) {
  return storage_bytes(type.dtype, static_cast<std::int64_t>(type.shape.element_count()));
}
Tensor on_host(Type type, Storage* storage, Loc loc) {
  type.weak = false;
  return make_data(storage, type, loc);
}
std::string path_of(const TypeDescription& description, const LeafList& list, std::size_t index) {
  struct Context {
    const Leaf* wanted;
    std::string path;
  } context{&list.leaves[index], {}};
  visit_paths(description, list.leaves.begin(), &context, [](void* at, const Leaf& leaf, const char* path) {
    auto& [wanted, found] = *static_cast<Context*>(at);
    if (&leaf == wanted) found = path;
  });
  return context.path;
}
std::string text_of(const Leaf& leaf) {
  return leaf.tensor().defined() ? to_string(type_of(leaf.tensor())) : "undefined";
}

}  // namespace

void compute(LeafList& leaves, Loc loc) {
  std::vector<Tensor> values;
  for (const Tensor* each : tensors_of(leaves)) values.push_back(*each);
  evaluate(values, loc);
}

std::int64_t count_rows(LeafList& leaves, Loc loc) {
  const std::vector<Tensor*> tensors = tensors_of(leaves);
  if (tensors.empty()) fail("pipeline", loc, "the source holds no tensor, or undefined ones");
  check_outside_trace(loc);
  const Type first = type_of(*tensors[0]);
  for (const Tensor* each : tensors) {
    const Type type = type_of(*each);
    if (type.shape.rank() < 1) fail("pipeline", loc, "a 0-d tensor has no rows: ", to_string(type));
    if (!(type.shape[0] == first.shape[0]))
      fail("pipeline", loc, "the numbers of rows differ: ", to_string(first), " and ", to_string(type));
    if (type.device != Device::cpu())
      fail("pipeline", loc, "the source must be on the host; to(device) moves its batches: ", to_string(type));
  }
  if (first.shape[0].constant() == 0) refuse_source(loc);
  compute(leaves, loc);
  return first.shape[0].constant();
}

void take_rows(LeafList& leaves, std::span<const std::int64_t> rows, bool one, Loc loc) {
  for (Tensor* each : tensors_of(leaves)) {
    const Type type = type_of(*each);
    const Bytes source = bytes_of(*each, loc);
    Type row = type;
    row.shape = Shape();
    for (int axis = 1; axis < type.shape.rank(); ++axis) row.shape.push_back(type.shape[axis]);
    const std::size_t bytes = size_of(row);
    Type result = type;
    result.shape[0] = static_cast<std::int64_t>(rows.size());
    Storage* storage = allocate(Device::cpu(), std::max<std::size_t>(bytes * rows.size(), 1));
    char* to = static_cast<char*>(storage->data);
    for (const std::int64_t index : rows) {
      std::memcpy(to, source.begin + static_cast<std::size_t>(index) * bytes, bytes);
      to += bytes;
    }
    *each = on_host(one ? row : result, storage, loc);
  }
}

void stack_leaves(const TypeDescription& description, LeafList* lists, std::size_t count, Loc loc) {
  Operation call("batch", loc);
  LeafList& first = lists[0];
  for (std::size_t i = 0; i < count; ++i) {
    if (lists[i].leaves.size() != first.leaves.size())
      fail("batch", loc, "elements 0 and ", i, " of a batch differ in a length or in what is present");
    compute(lists[i], loc);
  }
  for (std::size_t place = 0; place < first.leaves.size(); ++place) {
    const Leaf& leaf = first.leaves[place];
    if (leaf.kind == LeafKind::text && !leaf.flag) continue;
    const auto refuse = [&](std::size_t i, const std::string& a, const std::string& b) {
      const std::string path = path_of(description, first, place);
      fail("batch", loc, "elements of a batch differ", path.empty() ? "" : " at " + path, ": ", a, " in element 0, ", b,
           " in element ", i);
    };
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < count; ++i) {
      const Leaf& other = lists[i].leaves[place];
      if (!holds_tensor(leaf.kind)) {
        const bool same = other.kind == leaf.kind && other.size == leaf.size &&
                          (is_count(leaf.kind) || std::memcmp(other.address, leaf.address, leaf.size) == 0);
        if (!same) refuse(i, "one value", "another");
        continue;
      }
      const bool defined = leaf.tensor().defined();
      if (defined != other.tensor().defined() || (defined && !type_of(leaf.tensor()).same(type_of(other.tensor()))))
        refuse(i, text_of(leaf), text_of(other));
      if (defined) parts.push_back(other.tensor());
    }
    if (parts.empty()) continue;
    const Type row = type_of(parts[0]);
    if (row.device != Device::cpu() || row.shape.rank() == max_rank) {  // the latter is refused there
      leaf.tensor() = stack(parts, 0, loc);
      continue;
    }
    Type type = row;
    type.shape = Shape();
    type.shape.push_back(static_cast<std::int64_t>(count));
    for (int axis = 0; axis < row.shape.rank(); ++axis) type.shape.push_back(row.shape[axis]);
    const std::size_t bytes = size_of(row);
    Storage* storage = allocate(Device::cpu(), std::max<std::size_t>(bytes * count, 1));
    for (std::size_t i = 0; i < count && bytes; ++i)
      std::memcpy(static_cast<char*>(storage->data) + i * bytes, bytes_of(parts[i], loc).begin, bytes);
    leaf.tensor() = on_host(type, storage, loc);
  }
}

void move_to(LeafList& leaves, Device device, Loc loc) {
  for (Tensor* each : tensors_of(leaves)) *each = weft::to(*each, device, loc);
  compute(leaves, loc);
}

}  // namespace weft::data::detail
