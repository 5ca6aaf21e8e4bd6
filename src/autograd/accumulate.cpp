// The erased half of accumulate: a batch cut into parts, and what a loop over them carries.
#include "weft/accumulate.hpp"

#include "base/fail.hpp"
#include "record/record.hpp"

namespace weft {

Microbatches::Microbatches(std::int64_t count, Accumulation reduction, Loc loc)
    : count(count), reduction(reduction), loc(loc) {
  if (count < 1) fail("accumulate", loc, "the count of microbatches must be positive, it is ", count);
}

namespace detail {
namespace {

bool is_written(const Leaf& leaf) {
  return leaf.kind == LeafKind::buffer || leaf.kind == LeafKind::scalar || leaf.kind == LeafKind::index;
}
bool trains(const Leaf& leaf, LeafKind kind) {
  return leaf.kind == kind && leaf.tensor().defined() && !(kind == LeafKind::param && leaf.flag);
}

}  // namespace

Accumulator::Accumulator(const Microbatches& microbatches, bool writes)
    : microbatches_(microbatches), writes_(writes) {}

void Accumulator::cut(const LeafList& batch) const {
  LooseComposite call("accumulate", microbatches_.loc);
  const Dim count = microbatches_.count;
  for (const Leaf& leaf : batch.leaves) {
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    const Type type = type_of(leaf.tensor());
    if (type.shape.rank() == 0)
      fail("accumulate", call.loc(), "a tensor of the batch is ", to_string(type),
           ": it has no axis to be cut; let f capture it");
    if (!(type.shape[0] % count == Dim(0)))
      fail("accumulate", call.loc(), "a batch of ", dims::to_string(type.shape[0]), " can't be cut into ",
           microbatches_.count, " microbatches of one size");
    Shape parts;
    parts.push_back(count);
    parts.push_back(type.shape[0] / count);
    for (int axis = 1; axis < type.shape.rank(); ++axis) parts.push_back(type.shape[axis]);
    leaf.tensor() = reshape(leaf.tensor(), parts);
  }
}

void Accumulator::begin(const LeafList& gradients, const LeafList& written) const {
  LooseComposite call("accumulate", microbatches_.loc);
  const LeafKind kind = trainable_kind(gradients);
  for (const Leaf& leaf : gradients.leaves) {
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    const Type type = type_of(leaf.tensor());
    if (trains(leaf, kind) && is_floating(type.dtype))
      leaf.tensor() = zeros(type.shape, {computed_in(type.dtype), type.device}, call.loc());
    else if (!is_written(leaf) || leaf.kind == LeafKind::buffer)
      leaf.tensor() = Tensor();
  }
  for (const Leaf& leaf : written.leaves)
    if (holds_tensor(leaf.kind) && !(writes_ && is_written(leaf)) &&
        (leaf.kind == LeafKind::tensor || leaf.kind == LeafKind::param || leaf.kind == LeafKind::buffer))
      leaf.tensor() = Tensor();
}

void Accumulator::move_written(const LeafList& from, const LeafList& to) const {
  if (!writes_) return;
  for (std::size_t i = 0; i < to.leaves.size(); ++i)
    if (is_written(to.leaves[i]) && !to.leaves[i].tensor().same(from.leaves[i].tensor()))
      to.leaves[i].tensor() = from.leaves[i].tensor();
}

void Accumulator::add(const LeafList& sums, const LeafList& gradients) const {
  LooseComposite call("accumulate", microbatches_.loc);
  const LeafKind kind = trainable_kind(sums);
  for (std::size_t i = 0; i < sums.leaves.size(); ++i)
    if (trains(sums.leaves[i], kind)) {
      Tensor& sum = sums.leaves[i].tensor();
      sum = sum + cast(gradients.leaves[i].tensor(), sum.dtype());
    }
}

void Accumulator::finish(const LeafList& gradients, const LeafList& model) const {
  LooseComposite call("accumulate", microbatches_.loc);
  const LeafKind kind = trainable_kind(gradients);
  for (std::size_t i = 0; i < gradients.leaves.size(); ++i) {
    if (!trains(gradients.leaves[i], kind)) continue;
    Tensor& value = gradients.leaves[i].tensor();
    if (microbatches_.reduction == Accumulation::mean) value = value / static_cast<double>(microbatches_.count);
    value = cast(value, type_of(model.leaves[i].tensor()).dtype);
  }
}

void Accumulator::reduce_loss(const LeafList& stacked) const {
  LooseComposite call("accumulate", microbatches_.loc);
  Tensor& loss = stacked.leaves[0].tensor();
  loss = microbatches_.reduction == Accumulation::mean ? mean(loss, 0) : sum(loss, 0);
}

}  // namespace detail
}  // namespace weft
