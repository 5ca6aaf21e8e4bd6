// The erased half of value_and_grad: leaves bound to variables, a level open while f runs, gradients put in place.
// In: the flattened leaves of a copy of the model. Out: the leaves of the model with what f wrote, and those of the
// gradients. Invariants: while a level is open values computed since its variables were made keep their operands; the
// model itself is written only where f changed the copy.
#include "weft/grad.hpp"

#include <algorithm>
#include <cstring>

#include "autograd/backward.hpp"
#include "base/fail.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"

namespace weft::detail {

GradientLevel::GradientLevel(const char* operation, Loc loc)
    : operation_(operation), loc_(loc), saved_start_(recorder().level_start) {}

GradientLevel::~GradientLevel() {
  Recorder& r = recorder();
  if (r.level_start != saved_start_ && saved_start_ == UINT64_MAX) close_level(r.level_start);
  r.level_start = saved_start_;
}

bool GradientLevel::trains(const Leaf& leaf) const {
  if (leaf.kind == LeafKind::param && (leaf.flag || !leaf.tensor().defined())) return false;
  return leaf.kind == trains_;
}

void GradientLevel::bind(const LeafList& leaves, const TypeDescription& description) {
  trains_ = trainable_kind(leaves);
  // All are looked at before the first is bound, so that a refusal changes nothing.
  visit_paths(description, leaves.leaves.begin(), this, [](void* context, const Leaf& leaf, const char* path) {
    const GradientLevel& level = *static_cast<const GradientLevel*>(context);
    if (!level.trains(leaf)) return;
    const char* name = *path ? path : "the argument";
    if (!leaf.tensor().defined()) fail(level.operation_, level.loc_, name, " is an undefined tensor");
    if (!is_floating(type_of(leaf.tensor()).dtype))
      fail(level.operation_, level.loc_, name, " is ", to_string(type_of(leaf.tensor())),
           ": only floating values have gradients");
  });
  Operation call(operation_, loc_);
  for (std::size_t i = 0; i < leaves.leaves.size(); ++i) {
    const Leaf& leaf = leaves.leaves[i];
    if (!trains(leaf)) continue;
    Tensor variable = record(Op::variable, {leaf.tensor()}, {}, {}, loc_);
    if (variables_.empty() && saved_start_ == UINT64_MAX)
      open_level(recorder().level_start = variable.node()->sequence);
    positions_.push_back(i);
    variables_.push_back(std::move(variable));
  }
  if (variables_.empty())
    fail(operation_, loc_, "there is nothing to differentiate with respect to: no parameter trains");
  for (std::size_t i = 0; i < positions_.size(); ++i) leaves.leaves[positions_[i]].tensor() = variables_[i];
}

void GradientLevel::require_places(const LeafList& leaves) const {
  for (std::size_t position : positions_)
    if (position >= leaves.leaves.size() || !trains(leaves.leaves[position]))
      fail(operation_, loc_,
           "the function added, removed or froze parameters of what it is differentiated with respect to");
}

void GradientLevel::write_back(const LeafList& bound, const LeafList& place) const {
  require_places(bound);
  const std::size_t count = bound.leaves.size();
  bool same = place.leaves.size() == count;
  for (std::size_t i = 0; same && i < count; ++i) {
    const Leaf &from = bound.leaves[i], &to = place.leaves[i];
    same = from.kind == to.kind && from.size == to.size && from.flag == to.flag;
    if (same && !holds_tensor(from.kind) && from.flag) same = std::memcmp(to.address, from.address, from.size) == 0;
  }
  if (!same)
    fail(operation_, loc_,
         "the function must not change lengths, keys, presence, alternatives, classes or what is frozen in what it is "
         "differentiated "
         "with respect to: change them outside");
  auto trained = positions_.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const Leaf &from = bound.leaves[i], &to = place.leaves[i];
    if (trained != positions_.end() && *trained == i)
      ++trained;
    else if (!holds_tensor(from.kind)) {
      if (!is_count(from.kind) && from.size && std::memcmp(to.address, from.address, from.size) != 0)
        std::memcpy(to.address, from.address, from.size);
    } else if (!to.tensor().same(from.tensor())) {
      to.tensor() = from.tensor();
    }
  }
}

void GradientLevel::differentiate(const LeafList& result) {
  if (result.leaves.size() == 0 || !holds_tensor(result.leaves[0].kind))
    fail(operation_, loc_, "the first thing that the function returns must be the loss, a tensor");
  gradients_ = backward(result.leaves[0].tensor(), variables_, operation_, loc_, reached_);
}

void GradientLevel::require_reached(const LeafList& leaves, const TypeDescription& description) const {
  require_places(leaves);
  struct Search {
    const GradientLevel& level;
    std::size_t leaf = 0, variable = 0;
  } search{*this};
  visit_paths(description, leaves.leaves.begin(), &search, [](void* context, const Leaf&, const char* path) {
    Search& at = *static_cast<Search*>(context);
    const GradientLevel& level = at.level;
    if (at.variable == level.positions_.size() || at.leaf++ != level.positions_[at.variable]) return;
    if (!level.reached_[at.variable++])
      fail(level.operation_, level.loc_, "the loss does not depend on ", *path ? path : "the argument",
           ", which is an error under strict: use it, freeze it, or leave strict out for a gradient of zeros");
  });
}

void GradientLevel::place_gradients(const LeafList& leaves) {
  require_places(leaves);
  for (const Leaf& leaf : leaves.leaves)
    if (leaf.kind == LeafKind::tensor || leaf.kind == LeafKind::param || leaf.kind == LeafKind::buffer)
      leaf.tensor() = Tensor();
  for (std::size_t i = 0; i < positions_.size(); ++i) leaves.leaves[positions_[i]].tensor() = std::move(gradients_[i]);
}

}  // namespace weft::detail
