#include "autograd/backward.hpp"

#include <algorithm>
#include <unordered_map>

#include "autograd/rules.hpp"
#include "base/fail.hpp"
#include "base/trace_clock.hpp"
#include "ir/node_numbers.hpp"
#include "record/computed_call.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "record/row_gradients.hpp"

namespace weft {
namespace {

// Until the end of the block, what is recorded gets the location, the scope and the region of `node`.
class InPlaceOf {
 public:
  InPlaceOf(const Node& node, Loc otherwise)
      : loc_(recorder().loc), scope_(recorder().scope), region_(recorder().region) {
    recorder().loc = node.loc.file ? node.loc : otherwise;
    recorder().scope = node.scope;
    recorder().region = node.region;
  }
  ~InPlaceOf() {
    recorder().loc = loc_;
    recorder().scope = scope_;
    recorder().region = region_;
  }
  InPlaceOf(const InPlaceOf&) = delete;

 private:
  Loc loc_;
  std::uint32_t scope_, region_;
};

bool is_differentiable(const Tensor& value) { return is_floating(type_of(value).dtype); }

// What it was computed from is not known any more.
bool hides_operands(const Node& node) {
  return node.severed && (node.op == Op::data || info(node.op).kind != OpKind::leaf);
}

class Backward {
 public:
  Backward(std::span<const Tensor> variables, const char* operation, Loc loc)
      : variables_(variables), operation_(operation), loc_(loc), start_(variables.front().node()->sequence) {}

  // The gradients of the variables, from those of `values`; undefined where they are zero.
  std::vector<Tensor> run(std::span<const Tensor> values, std::span<const Tensor> seeds) {
    collect(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t at = value_entries_[i];
      if (at == none || !depends_[place(values[i], at)]) continue;
      reached_[place(values[i], at)] = true;
      add_to(gradients_[place(values[i], at)], seeds[i]);
    }
    for (std::size_t i = entries_.size(); i-- > 0;)
      if (std::ranges::count(reached(entries_[i]), 1) && !is_variable(entries_[i].node)) pull_back(entries_[i]);
    std::vector<Tensor> results;
    for (const std::uint32_t at : variable_entries_) {
      any_reached_ = any_reached_ || (at != none && reached_[entries_[at].first_gradient]);
      results.push_back(at == none ? Tensor() : gradients_[entries_[at].first_gradient]);
    }
    return results;
  }
  bool any_reached() const { return any_reached_; }

 private:
  static constexpr std::uint32_t none = NodeNumbers::none;
  struct Entry {
    Node* node;
    std::uint32_t first_operand = 0;   // in operand_entries_
    std::uint32_t first_gradient = 0;  // of its outputs, in gradients_, depends_ and reached_
  };

  bool is_variable(const Node* node) const {
    if (node->op != Op::variable) return false;
    auto found = std::lower_bound(variables_.begin(), variables_.end(), node->sequence,
                                  [](const Tensor& v, std::uint64_t at) { return v.node()->sequence < at; });
    return found != variables_.end() && found->node() == node;
  }
  std::size_t place(const Tensor& value, std::uint32_t entry) const {
    return entries_[entry].first_gradient + value.output();
  }
  std::span<const unsigned char> reached(const Entry& entry) const {
    return {reached_.data() + entry.first_gradient, entry.node->output_count};
  }
  // Where the entry of a value's node is.
  std::uint32_t find(const Tensor& value) const {
    return value.node()->sequence >= start_ ? numbers_.find(value.node()) : none;
  }

  // What the values need and was recorded since the variables (nothing older can depend on them), and what of it
  // depends.
  void collect(std::span<const Tensor> values) {
    EvaluationLock lock;  // evaluation drops operands
    if (collect(values, lock)) return;
    lock.cover_all();  // also of what other threads recorded since
    numbers_ = {};
    entries_.clear();
    collect(values, lock);
  }
  // False where the lock does not cover a node that they need.
  bool collect(std::span<const Tensor> values, const EvaluationLock& lock) {
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
    std::uint32_t outputs = 0;
    for (Entry& entry : entries_) {
      entry.first_gradient = outputs;
      outputs += entry.node->output_count;
      entry.first_operand = static_cast<std::uint32_t>(operand_entries_.size());
      const bool starts = is_variable(entry.node);
      depends_.resize(outputs, starts);
      if (starts) continue;
      const ComputedCallee* const computed = computed_callee(*entry.node);
      for (std::uint32_t i = 0; i < entry.node->operand_count; ++i) {
        const Tensor& operand = entry.node->input(i);
        operand_entries_.push_back(find(operand));
        if (entry.node->op == Op::stop_gradient || !depends(operand_entries_.back(), operand)) continue;
        for (std::uint32_t output = 0; output < entry.node->output_count; ++output)
          if (!computed || computed->depends(output, i)) depends_[entry.first_gradient + output] = true;
      }
    }
    reached_.resize(outputs);
    gradients_.resize(outputs);
    for (const Tensor& value : values) value_entries_.push_back(find(value));
    for (const Tensor& variable : variables_) variable_entries_.push_back(find(variable));
    return true;
  }

  bool depends(std::uint32_t entry, const Tensor& value) const {
    return entry != none && depends_[place(value, entry)] && is_differentiable(value);
  }

  // Whether a result that the values depend on depends on the operand.
  bool is_reached(const Entry& entry, const ComputedCallee& computed, std::size_t operand) const {
    bool any = false;
    for (std::uint32_t output = 0; output < entry.node->output_count; ++output)
      any = any || (reached(entry)[output] && computed.depends(output, operand));
    return any;
  }

  void pull_back(const Entry& entry) {
    const Node& node = *entry.node;
    const std::uint32_t* operands = operand_entries_.data() + entry.first_operand;
    std::span<Tensor> outputs(gradients_.data() + entry.first_gradient, node.output_count);
    bool nonzero = std::any_of(outputs.begin(), outputs.end(), [](const Tensor& g) { return g.defined(); });
    const ComputedCallee* const computed = computed_callee(node);
    wanted_.assign(node.operand_count, 0);
    results_.assign(node.operand_count, Tensor());
    for (std::size_t i = 0; i < node.operand_count; ++i) {
      wanted_[i] = depends(operands[i], node.operands[i]) && (!computed || is_reached(entry, *computed, i));
      if (wanted_[i]) reached_[place(node.operands[i], operands[i])] = true;
    }
    if (!nonzero) return;
    InPlaceOf scope(node, loc_);
    vector_jacobian_rule(node.op)({Tensor(entry.node), outputs, wanted_, results_});
    for (Tensor& gradient : outputs) gradient = Tensor();
    for (std::size_t i = 0; i < node.operand_count; ++i) {
      if (!wanted_[i] || !results_[i].defined()) continue;
      const Type &type = type_of(results_[i]), &expected = type_of(node.operands[i]);
      WEFT_CHECK(type.dtype == expected.dtype && type.shape.rank() == expected.shape.rank(), "gradient of operand ", i,
                 " of ", info(node.op).name, " is ", to_string(type), ", not ", to_string(expected));
      add_to(gradients_[entries_[operands[i]].first_gradient + node.operands[i].output()], results_[i]);
    }
  }
  void add_to(Tensor& total, const Tensor& gradient) const {
    total = total.defined() ? add_gradients(total, gradient, loc_) : gradient;
  }

  std::span<const Tensor> variables_;
  const char* operation_;
  Loc loc_;
  std::uint64_t start_;
  std::vector<Entry> entries_;                  // in recording order
  NodeNumbers numbers_;                         // by node, its place in `entries_`
  std::vector<std::uint32_t> operand_entries_;  // of each entry's operands; none for what cannot depend
  std::vector<std::uint32_t> value_entries_, variable_entries_;
  bool any_reached_ = false;
  std::vector<unsigned char> depends_, reached_;  // by output: whether it depends on a variable, and the values on it
  std::vector<Tensor> gradients_;
  std::vector<unsigned char> wanted_;
  std::vector<Tensor> results_;
};

}  // namespace

std::vector<Tensor> backward(const Tensor& loss, std::span<const Tensor> variables, const char* operation, Loc loc) {
  const AutogradTime time;
  if (!loss.defined()) fail(operation, loc, "the loss is an undefined tensor");
  Loc where = loss.node()->loc.file ? loss.node()->loc : loc;
  if (!is_differentiable(loss))
    fail(operation, where, "the loss must be a floating number, it is ", to_string(type_of(loss)));
  if (!(type_of(loss).shape.element_count() == Dim(1)))
    fail(operation, where, "the loss must be one number, it is ", to_string(type_of(loss)),
         ": reduce it with sum or mean");
  Tensor seed;
  {
    InPlaceOf scope(*loss.node(), loc);
    seed = constant_like(1, type_of(loss), loc);
  }
  Backward pass(variables, operation, loc);
  std::vector<Tensor> gradients = pass.run(std::span(&loss, 1), std::span(&seed, 1));
  if (!pass.any_reached())
    fail(operation, loc,
         "the loss does not depend on what it is differentiated with respect to: use the argument that "
         "the function is called with, not what it was copied from, nor a copy of it");
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = constant_like(0, type_of(variables[i]), loc);
  return gradients;
}

bool depends_on_variable(const Tensor& value, std::uint64_t start) {
  if (value.node()->sequence < start || !is_differentiable(value)) return false;
  if (value.node()->op == Op::variable) return true;
  NodeNumbers numbers;
  std::vector<const Node*> stack;
  bool covered = true;
  EvaluationLock lock;
  const auto visit = [&](const Tensor& each) {
    Node* const node = each.node();
    if (node->sequence < start || !is_differentiable(each) || !numbers.set(node, 0)) return;
    covered = covered && lock.covers(*node);
    stack.push_back(node);
  };
  const auto is_found = [&] {
    visit(value);
    while (!stack.empty() && covered) {
      const Node& node = *stack.back();
      stack.pop_back();
      if (node.op == Op::variable || hides_operands(node)) return true;
      if (node.op == Op::stop_gradient) continue;
      for (const Tensor& operand : node.inputs()) visit(operand);
    }
    return false;
  };
  if (is_found()) return true;
  if (covered) return false;
  lock.cover_all();
  covered = true;
  numbers = {};
  stack.clear();
  return is_found();
}

std::vector<std::vector<bool>> dependences(const Graph& graph) {
  const std::size_t inputs = graph.inputs.size();
  std::unordered_map<const Node*, std::vector<bool>> of;
  for (const Tensor& value : graph.nodes) {
    std::vector<bool>& all = of[value.node()];
    all.resize(inputs);
    if (value.node()->op == Op::input && is_differentiable(value))
      all[static_cast<std::size_t>(value.node()->attributes<Parameter>().slot)] = true;
    if (value.node()->op == Op::stop_gradient) continue;
    for (const Tensor& operand : value.node()->inputs()) {
      if (!is_differentiable(operand)) continue;
      const std::vector<bool>& below = of.at(operand.node());
      for (std::size_t i = 0; i < inputs; ++i) all[i] = all[i] || below[i];
    }
  }
  std::vector<std::vector<bool>> outputs;
  for (const Tensor& output : graph.outputs)
    outputs.push_back(is_differentiable(output) ? of.at(output.node()) : std::vector<bool>(inputs));
  return outputs;
}

std::vector<Tensor> pull_back(std::span<const Tensor> values, std::span<const Tensor> gradients,
                              std::span<const Tensor> variables, const char* operation, Loc loc) {
  return Backward(variables, operation, loc).run(values, gradients);
}

}  // namespace weft
