#include "autograd/scan_plan.hpp"

#include <algorithm>

namespace weft {
namespace {

// Computed again where it is read: what moves no more bytes than it would take to keep it.
bool is_cheap(const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::pointwise:
    case OpKind::cast:
    case OpKind::view:
    case OpKind::identity:
    case OpKind::assemble: return true;
    case OpKind::leaf: return node.op != Op::input;
    case OpKind::region: return node.definition != nullptr;  // a scalar expression
    default: return false;
  }
}

// Linear, and of one operand: the sum of its results is its result of the sum.
bool passes_sums(const Node& node) {
  switch (node.op) {
    case Op::reshape:
    case Op::permute:
    case Op::slice:
    case Op::expand:
    case Op::pad:
    case Op::neg: return true;
    case Op::cast: return is_floating(type_of(node.input(0)).dtype) && is_floating(node.type.dtype);
    default: return false;
  }
}

}  // namespace

ScanPlan::ScanPlan(const JointBody& body) : body_(body) {
  for (std::size_t i = body_.carries() + body_.scanned(); i < body_.node().operand_count; ++i)
    if (body_.gradients()[i].defined()) find_terms(i, body_.gradients()[i], {});
  accumulate_rest();
  collect_needed();
}

void ScanPlan::find_terms(std::size_t operand, Tensor value, std::vector<const Node*> behind) {
  value = below_variables(value);
  const Node& node = *value.node();
  // The operands of a checkpoint's products are in the memory of one iteration.
  if (body_.is_recomputed(value)) return terms_.push_back({operand, value, std::move(behind), true});
  const bool alone = value.output() == 0 && body_.is_backward(value);
  if (alone && node.op == Op::add) {
    find_terms(operand, node.input(0), behind);
    return find_terms(operand, node.input(1), std::move(behind));
  }
  if (alone && passes_sums(node)) {
    behind.push_back(&node);
    return find_terms(operand, node.input(0), std::move(behind));
  }
  const bool can_stack = std::ranges::all_of(node.inputs(), [&](const Tensor& each) {
    const std::size_t i = body_.slot(stacked_value(each));
    return type_of(each).shape.rank() < max_rank && !body_.is_capture(i);  // a capture is the same in all iterations
  });
  const bool outside =
      alone && can_stack && (node.op == Op::matmul || node.op == Op::scatter_add || node.op == Op::sum);
  terms_.push_back({operand, value, std::move(behind), !outside});
  if (outside && node.op != Op::sum)
    for (const Tensor& each : node.inputs()) stack(each);
}

// Has the backward loop stack the value over all iterations, [length, ...], unless it is stacked anyway.
void ScanPlan::stack(const Tensor& given) {
  const Tensor value = stacked_value(given);
  if (is_stacked(value)) return;
  stacked_.push_back(value);
}
// Below what is a view of the stack as well.
Tensor ScanPlan::stacked_value(const Tensor& given) const {
  Tensor value = below_variables(given);
  while (value.node()->op == Op::permute) value = below_variables(value.node()->input(0));
  return value;
}
bool ScanPlan::is_stacked(const Tensor& value) const {
  if (!body_.is_backward(value)) {
    const std::size_t i = body_.slot(value);
    if (i < body_.carries() + body_.scanned() || (value.node()->op != Op::input && !is_cheap(*value.node())))
      return true;
  }
  return std::ranges::any_of(stacked_, [&](const Tensor& each) { return each.same(value); });
}

// Sums of what is stacked anyway follow the loop; other terms of a capture are added up in it.
void ScanPlan::accumulate_rest() {
  for (std::size_t i = body_.carries(); i < body_.carries() + body_.scanned(); ++i)
    if (body_.gradients()[i].defined()) stack_slice(i);
  for (Term& term : terms_) {
    const Node& node = *term.value.node();
    if (!term.in_loop && node.op == Op::sum) term.in_loop = !is_stacked(stacked_value(node.input(0)));
  }
}
void ScanPlan::stack_slice(std::size_t operand) {
  const Tensor value = below_variables(body_.gradients()[operand]);
  if (std::ranges::none_of(stacked_, [&](const Tensor& each) { return each.same(value); })) stacked_.push_back(value);
}

void ScanPlan::collect_needed() {
  for (std::size_t k = 0; k < body_.carries(); ++k)
    if (body_.active()[k] && body_.gradients()[k].defined()) need(body_.gradients()[k]);
  for (const Tensor& value : stacked_) need(value);
  for (const Term& term : terms_) {
    if (term.in_loop) {
      need(term.value);
      continue;
    }
    for (const Tensor& operand : term.value.node()->inputs())
      if (const Tensor value = stacked_value(operand); !body_.is_backward(value)) read_outside(value);
  }
}
void ScanPlan::need(const Tensor& given) {
  const Tensor value = below_variables(given);
  const Node& node = *value.node();
  if (!body_.is_backward(value)) {
    const std::size_t i = body_.slot(value);
    if (i < body_.carries() || (i == body_.inputs().size() && !is_cheap(node))) return save(value);
    if (i < body_.inputs().size()) return read(i);
  }
  if (!needed_.insert({&node, true}).second) return;
  for (const Tensor& operand : node.inputs()) need(operand);
}
void ScanPlan::read(std::size_t input) {
  if (std::ranges::find(read_, input) == read_.end()) read_.push_back(input);
}
void ScanPlan::save(const Tensor& value) {
  if (std::ranges::none_of(saved_, [&](const Tensor& each) { return each.same(value); })) saved_.push_back(value);
}
void ScanPlan::read_outside(const Tensor& value) {
  const std::size_t i = body_.slot(value);
  if (i < body_.carries() || (i == body_.inputs().size() && !is_cheap(*value.node()))) save(value);
}

}  // namespace weft
