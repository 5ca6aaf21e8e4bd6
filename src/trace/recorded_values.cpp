#include "trace/recorded_values.hpp"

#include <algorithm>

#include "ir/host_function.hpp"

namespace weft::detail {
namespace {

// What is as cheap to make as to keep, or has no value.
bool is_made_again(const Node& node) {
  return node.op == Op::constant || node.op == Op::data || node.op == Op::iota || node.op == Op::input ||
         node.op == Op::check || (node.op == Op::host_call && !runs_once(node));
}

// The same elements otherwise: what it shows is kept in its place.
bool is_view(const Node& node) {
  return node.op == Op::expand || node.op == Op::reshape || node.op == Op::permute || node.op == Op::variable ||
         node.op == Op::stop_gradient;
}

}  // namespace

bool is_given_by_host(const Node& node) { return node.op == Op::host_call; }

void RecordedValues::note() {
  for (; noted_ < recorded_.size(); ++noted_) {
    const Node& node = *recorded_[noted_].value.node();
    places_.set(&node, static_cast<std::uint32_t>(noted_));
    for (const Tensor& operand : node.inputs())
      if (const std::uint32_t place = places_.find(operand.node()); place != NodeNumbers::none) ++recorded_[place].uses;
    if (!is_made_again(node)) candidates_.push_back(static_cast<std::uint32_t>(noted_));
  }
}

// Whether somebody has a handle besides the nodes that read it, the list here, the trace's list of checks, and who asks
// for its value now.
bool RecordedValues::is_held(std::uint32_t operation, const Node* asked) const {
  const Recorded& recorded = recorded_[operation];
  const Node& node = *recorded.value.node();
  return node.references > 1 + recorded.uses + (is_effect(node) ? 1 : 0) + (&node == asked ? 1 : 0);
}

// Drops the candidates that nobody can read any more: a handle that is gone does not come back. Inside of a gradient
// its derivative reads what was recorded since it began.
std::vector<KnownValue> RecordedValues::known_now(const Node* asked) {
  const std::uint64_t level = recorder().level_start;
  std::vector<KnownValue> known;
  std::erase_if(candidates_, [&](std::uint32_t operation) {
    const bool given = level != UINT64_MAX && is_given_by_host(*recorded_[operation].value.node());
    const bool held = is_held(operation, asked) || given;
    if (!held && recorded_[operation].value.node()->sequence < level) return true;
    Tensor value = recorded_[operation].value;
    if (is_view(*value.node())) {
      while (is_view(*value.node())) value = value.node()->input(0);
      const std::uint32_t place = places_.find(value.node());
      if (place != NodeNumbers::none && !is_made_again(*value.node()))
        known.push_back({{place, value.output()}, operation, held});
      return false;
    }
    for (std::uint32_t output = 0; output < value.node()->output_count; ++output)
      known.push_back({{operation, output}, operation, held});
    return false;
  });
  // One each, held where any is.
  std::ranges::sort(known, [](const KnownValue& a, const KnownValue& b) {
    return a.place != b.place ? a.place < b.place : a.held > b.held;
  });
  const auto same = std::ranges::unique(known, {}, &KnownValue::place);
  known.erase(same.begin(), same.end());
  return known;
}

void RecordedValues::settle(std::vector<KnownValue>& known) const {
  for (KnownValue& each : known)
    if (!is_given_by_host(*at(each.place).node())) each.held = each.held && is_held(each.holder, nullptr);
}

}  // namespace weft::detail
