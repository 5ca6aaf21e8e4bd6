#include "autograd/scan_plan.hpp"

#include <algorithm>
#include <unordered_set>

#include "ir/minimum_cut.hpp"
#include "record/values.hpp"

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
  std::vector<Tensor> roots = stacked_;
  for (std::size_t k = 0; k < body_.carries(); ++k)
    if (body_.active()[k] && body_.gradients()[k].defined()) roots.push_back(body_.gradients()[k]);
  for (const Term& term : terms_) {
    if (term.in_loop) {
      roots.push_back(term.value);
      continue;
    }
    for (const Tensor& operand : term.value.node()->inputs())
      if (const Tensor value = stacked_value(operand); !body_.is_backward(value)) read_outside(value);
  }
  choose_kept(roots);
  for (const Tensor& root : roots) need(root);
}

// What the backward loop reads of the other one, chosen by a minimum cut: each value that it reads is computed again
// from what is kept. A sum of a slice and a product is one stack, and keeps neither of the two.
void ScanPlan::choose_kept(const std::vector<Tensor>& roots) {
  std::vector<Tensor> values;  // of the forward loop
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::unordered_set<const Node*> seen;
  std::vector<Tensor> open = roots;
  const auto number = [&](const Tensor& value) {
    const auto [found, is_new] = numbers.try_emplace(value.word(), static_cast<std::uint32_t>(values.size()));
    if (is_new) values.push_back(value);
    return found->second;
  };
  std::vector<std::uint32_t> asked;  // the values that the backward loop reads
  while (!open.empty()) {
    const Tensor value = below_variables(open.back());
    open.pop_back();
    if (!body_.is_backward(value))
      asked.push_back(number(value));
    else if (seen.insert(value.node()).second)
      open.insert(open.end(), value.node()->inputs().begin(), value.node()->inputs().end());
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> reads;  // operand, value
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const Tensor value = values[i];
    if (!is_computed_again(value)) continue;
    for (const Tensor& operand : value.node()->inputs()) {
      const std::uint32_t from = number(below_variables(operand));
      reads.emplace_back(from, i);
    }
  }
  const auto count = static_cast<std::uint32_t>(values.size()), source = 2 * count, sink = source + 1;
  MinimumCut cut(sink + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t slot = body_.slot(values[i]);
    if (body_.is_capture(slot)) continue;  // the same in all iterations
    cut.edge(2 * i, 2 * i + 1, bytes_to_keep(values[i]));
    if (slot < body_.inputs().size() || !is_cheap(*values[i].node())) cut.edge(source, 2 * i, MinimumCut::unlimited);
  }
  for (const auto& [from, to] : reads) cut.edge(2 * from + 1, 2 * to, MinimumCut::unlimited);
  for (const std::uint32_t i : asked) cut.edge(2 * i + 1, sink, MinimumCut::unlimited);
  const std::vector<bool>& reached = cut.source_side(source, sink);
  for (std::uint32_t i = 0; i < count; ++i)
    if (reached[2 * i] && !reached[2 * i + 1]) kept_.insert(values[i].word());
}
bool ScanPlan::is_computed_again(const Tensor& value) const {
  return body_.slot(value) == body_.inputs().size() && is_cheap(*value.node());
}
// Of one iteration. A slice of what has memory anyway, and what a product after the loop reads, cost nothing more.
std::int64_t ScanPlan::bytes_to_keep(const Tensor& value) const {
  const Type& type = type_of(value);
  const std::size_t slot = body_.slot(value);
  if (std::ranges::any_of(saved_, [&](const Tensor& each) { return each.same(value); })) return 0;
  if (outside_.contains(slot)) return 0;
  if (slot >= body_.carries() && slot < body_.inputs().size()) {
    Tensor whole = below_variables(body_.node().input(slot));
    while (is_view(whole.node()->op) && !computed(whole.node())) whole = below_variables(whole.node()->input(0));
    if (whole.node()->op == Op::input || computed(whole.node())) return 0;
  }
  const std::int64_t elements = dims::at_hints(type.shape.element_count());
  constexpr std::int64_t most = std::int64_t{1} << 36;
  const auto bytes = static_cast<std::int64_t>(
      storage_bytes(type.dtype, static_cast<std::size_t>(std::clamp<std::int64_t>(elements, 1, most))));
  if (!is_computed_again(value)) return 8 * bytes;
  // What the forward loop would write besides, and does not have as one value in memory, must be worth it.
  const bool can_be_kept = value.node()->output_count == 1 && !type.weak && type.shape.rank() < max_rank &&
                           info(value.node()->op).kind != OpKind::leaf;
  return can_be_kept ? 9 * bytes : MinimumCut::unlimited;
}

void ScanPlan::need(const Tensor& given) {
  const Tensor value = below_variables(given);
  const Node& node = *value.node();
  if (!body_.is_backward(value)) {
    const std::size_t i = body_.slot(value);
    if (body_.is_capture(i)) return read(i);
    if (kept_.contains(value.word())) return i < body_.carries() || i == body_.inputs().size() ? save(value) : read(i);
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
  if (i >= body_.carries() && i < body_.inputs().size()) outside_.insert(i);
  if (i < body_.carries() || (i == body_.inputs().size() && !is_cheap(*value.node()))) save(value);
}

}  // namespace weft
