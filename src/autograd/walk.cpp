#include "autograd/walk.hpp"

#include <algorithm>

#include "autograd/dependence.hpp"
#include "base/fail.hpp"
#include "record/evaluate.hpp"

namespace weft {

bool hides_operands(const Node& node) {
  return node.severed && (node.op == Op::data || info(node.op).kind != OpKind::leaf);
}

LevelWalk::LevelWalk(std::span<const Tensor> values, std::span<const Tensor> variables, const char* operation, Loc loc)
    : given_(variables), operation_(operation), loc_(loc), start_(variables.front().node()->sequence) {
  EvaluationLock lock;  // evaluation drops operands
  if (collect(values, lock)) return;
  lock.cover_all();  // also of what other threads recorded since
  numbers_ = {};
  entries_.clear();
  collect(values, lock);
}

bool LevelWalk::is_variable(const Node* node) const {
  if (node->op != Op::variable) return false;
  const auto found = std::lower_bound(given_.begin(), given_.end(), node->sequence,
                                      [](const Tensor& v, std::uint64_t at) { return v.node()->sequence < at; });
  return found != given_.end() && found->node() == node;
}

std::uint32_t LevelWalk::find(const Tensor& value) const {
  return value.node()->sequence >= start_ ? numbers_.find(value.node()) : none;
}

bool LevelWalk::depends(std::uint32_t entry, const Tensor& value) const {
  return entry != none && depends_[output(entry, value)] && is_differentiable(value);
}

// False where the lock does not cover a node that the values need.
bool LevelWalk::collect(std::span<const Tensor> values, const EvaluationLock& lock) {
  bool covered = true;
  auto visit = [&](const Tensor& value) {
    Node* node = value.node();
    if (node->sequence < start_ || !numbers_.set(node, static_cast<std::uint32_t>(entries_.size()))) return;
    covered = covered && lock.covers(*node);
    if (!covered) return;
    if (hides_operands(*node) && !is_variable(node))
      fail(operation_, node->loc.file ? node->loc : loc_, "no gradient passes through ", to_string(type_of(value)),
           " (", name_of(*node), "): it was computed apart from what is differentiated");
    entries_.push_back({node});
  };
  for (const Tensor& value : values) visit(value);
  for (std::size_t i = 0; i < entries_.size() && covered; ++i) {
    const Node* node = entries_[i].node;
    if (is_variable(node)) continue;
    for (const Tensor& operand : node->inputs()) visit(operand);
  }
  if (!covered) return false;
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.node->sequence < b.node->sequence; });
  for (std::size_t i = 0; i < entries_.size(); ++i) numbers_.set(entries_[i].node, static_cast<std::uint32_t>(i));
  for (Entry& entry : entries_) {
    entry.first_output = output_count_;
    output_count_ += entry.node->output_count;
    entry.first_operand = static_cast<std::uint32_t>(operand_entries_.size());
    const bool starts = is_variable(entry.node);
    depends_.resize(output_count_, starts);
    if (starts) continue;
    const NodeDependence dependence(*entry.node);
    for (std::uint32_t i = 0; i < entry.node->operand_count; ++i) {
      const Tensor& operand = entry.node->input(i);
      operand_entries_.push_back(find(operand));
      if (!depends(operand_entries_.back(), operand)) continue;
      for (std::uint32_t output = 0; output < entry.node->output_count; ++output)
        if (dependence(output, i)) depends_[entry.first_output + output] = true;
    }
  }
  for (const Tensor& value : values) value_entries_.push_back(find(value));
  for (const Tensor& variable : given_) variable_entries_.push_back(find(variable));
  return true;
}

InPlaceOf::InPlaceOf(const Node& node, Loc otherwise) {
  Recorder& r = recorder();
  r.autocast = DType::f32;
  r.loc = node.loc.file ? node.loc : otherwise;
  r.scope = node.scope;
  r.region = region_of(node);
}

}  // namespace weft
