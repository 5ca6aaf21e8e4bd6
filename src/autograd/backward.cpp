#include "autograd/backward.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "autograd/attention.hpp"
#include "autograd/dependence.hpp"
#include "autograd/part_gradients.hpp"
#include "autograd/rules.hpp"
#include "autograd/walk.hpp"
#include "base/fail.hpp"
#include "base/trace_clock.hpp"
#include "record/evaluate.hpp"
#include "record/row_gradients.hpp"

namespace weft {
namespace {

class Backward {
 public:
  Backward(std::span<const Tensor> values, std::span<const Tensor> variables, const char* operation, Loc loc)
      : walk_(values, variables, operation, loc),
        values_(values),
        loc_(loc),
        reached_(walk_.output_count()),
        gradients_(walk_.output_count()) {}

  // The gradients of the variables, from those of the values; undefined where they are zero.
  std::vector<Tensor> run(std::span<const Tensor> seeds) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::uint32_t at = walk_.values()[i];
      if (at == LevelWalk::none || !walk_.depends(walk_.output(at, values_[i]))) continue;
      reached_[walk_.output(at, values_[i])] = true;
      add_to(gradients_[walk_.output(at, values_[i])], seeds[i]);
    }
    for (std::size_t i = walk_.entries().size(); i-- > 0;)
      if (const LevelWalk::Entry& entry = walk_.entries()[i];
          std::ranges::count(reached(entry), 1) && !walk_.is_variable(entry.node))
        pull_back(entry);
    std::vector<Tensor> results;
    for (const std::uint32_t at : walk_.variables()) {
      reached_variables_.push_back(at != LevelWalk::none && reached_[walk_.entries()[at].first_output]);
      results.push_back(at == LevelWalk::none ? Tensor() : gradients_[walk_.entries()[at].first_output]);
    }
    return results;
  }
  // By variable, after run(): whether the values depend on it.
  const std::vector<bool>& reached_variables() const { return reached_variables_; }

 private:
  std::span<const unsigned char> reached(const LevelWalk::Entry& entry) const {
    return {reached_.data() + entry.first_output, entry.node->output_count};
  }
  // Whether a result that the values depend on depends on the operand.
  bool is_reached(const LevelWalk::Entry& entry, const NodeDependence& depends, std::size_t operand) const {
    bool any = false;
    for (std::uint32_t output = 0; output < entry.node->output_count; ++output)
      any = any || (reached(entry)[output] && depends(output, operand));
    return any;
  }

  void pull_back(const LevelWalk::Entry& entry) {
    const Node& node = *entry.node;
    const std::uint32_t* operands = walk_.operands(entry);
    std::span<Tensor> outputs(gradients_.data() + entry.first_output, node.output_count);
    bool nonzero = std::any_of(outputs.begin(), outputs.end(), [](const Tensor& g) { return g.defined(); });
    const NodeDependence depends(node);
    wanted_.assign(node.operand_count, 0);
    results_.assign(node.operand_count, Tensor());
    for (std::size_t i = 0; i < node.operand_count; ++i) {
      wanted_[i] = walk_.depends(operands[i], node.operands[i]) && is_reached(entry, depends, i);
      if (wanted_[i]) reached_[walk_.output(operands[i], node.operands[i])] = true;
    }
    if (!nonzero) return;
    InPlaceOf scope(node, loc_);
    if (node.op == Op::matmul && pull_back_attention(node, outputs[0])) {
      outputs[0] = Tensor();
      return;
    }
    vector_jacobian_rule(node.op)({Tensor(entry.node), outputs, wanted_, results_});
    for (Tensor& gradient : outputs) gradient = Tensor();
    for (std::size_t i = 0; i < node.operand_count; ++i) {
      if (!wanted_[i] || !results_[i].defined()) continue;
      const Type &type = type_of(results_[i]), &expected = type_of(node.operands[i]);
      WEFT_CHECK(type.dtype == expected.dtype && type.shape.rank() == expected.shape.rank(), "gradient of operand ", i,
                 " of ", info(node.op).name, " is ", to_string(type), ", not ", to_string(expected));
      // A rule may have made a number of a size, as that of cumprod does; what reads the gradient has the operand's
      // type.
      add_to(gradients_[walk_.output(operands[i], node.operands[i])],
             RecordingBuilder().reshape(results_[i], expected.shape));
    }
  }
  // Of attention that is written by hand the gradient is that of the call which takes its place (attention.hpp). Only
  // while a function is traced: elsewhere the product has been computed. False: `product` ends no such attention.
  bool pull_back_attention(const Node& product, const Tensor& given) {
    const Recorder& r = recorder();
    if (r.in_body || !r.trace() || r.trace()->is_loop) return false;
    const Tensor call = attention_to_differentiate(product, [this](const Node& node) { return readers(node) == 1; });
    if (!call.defined()) return false;
    // What was recorded for it, last first; the gradients of what was there before are the walk's.
    std::map<std::uint64_t, std::pair<Node*, Tensor>, std::greater<>> open{
        {call.node()->sequence, {call.node(), given}}};
    std::vector<std::pair<Tensor, Tensor>> found;
    const std::uint64_t last = walk_.entries().back().node->sequence;
    const std::function<bool(const Tensor&)> depends = [&](const Tensor& value) {
      if (!is_differentiable(value)) return false;
      if (value.node()->sequence <= last) return walk_.depends(walk_.entry_of(value), value);
      return std::ranges::any_of(value.node()->inputs(), depends);
    };
    while (!open.empty()) {
      const auto [node, gradient] = open.begin()->second;
      open.erase(open.begin());
      std::vector<Tensor> outputs(node->output_count), results(node->operand_count);
      std::vector<unsigned char> wanted(node->operand_count);
      outputs[0] = gradient;
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = depends(node->input(i));
      vector_jacobian_rule(node->op)({Tensor(node), outputs, wanted, results});
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (!wanted[i] || !results[i].defined()) continue;
        const Tensor& operand = node->input(i);
        if (node == call.node() && !is_done_whole(*results[i].node())) return false;
        if (operand.node()->sequence > last) {
          auto& [of, total] = open[operand.node()->sequence];
          of = operand.node();
          add_to(total, results[i]);
        } else {
          found.emplace_back(operand, results[i]);
        }
      }
    }
    for (const auto& [value, gradient] : found) {
      const std::uint32_t output = walk_.output(walk_.entry_of(value), value);
      reached_[output] = true;
      add_to(gradients_[output], gradient);
    }
    return true;
  }
  // How often the entries read a value of the node.
  std::uint32_t readers(const Node& node) {
    if (readers_.empty()) {
      readers_.resize(walk_.entries().size());
      for (const LevelWalk::Entry& entry : walk_.entries())
        for (std::uint32_t i = 0; i < entry.node->operand_count && !walk_.is_variable(entry.node); ++i)
          if (const std::uint32_t at = walk_.operands(entry)[i]; at != LevelWalk::none) ++readers_[at];
    }
    const std::uint32_t at = walk_.entry_of(Tensor(const_cast<Node*>(&node)));
    return at == LevelWalk::none ? 0 : readers_[at];
  }
  void add_to(Tensor& total, const Tensor& gradient) const {
    const Tensor joined = total.defined() ? join_gradients(total, gradient) : gradient;
    total = joined.defined() ? joined : add_gradients(total, gradient, loc_);
  }

  LevelWalk walk_;
  std::span<const Tensor> values_;
  Loc loc_;
  std::vector<bool> reached_variables_;
  std::vector<unsigned char> reached_;  // by output: whether the values depend on it
  std::vector<Tensor> gradients_;       // of the outputs of all entries
  std::vector<std::uint32_t> readers_;  // by entry, where somebody asked
  std::vector<unsigned char> wanted_;
  std::vector<Tensor> results_;
};

}  // namespace

std::vector<Tensor> backward(const Tensor& loss, std::span<const Tensor> variables, const char* operation, Loc loc,
                             std::vector<bool>& reached) {
  const AutogradTime time;
  if (!loss.defined()) fail(operation, loc, "the loss is an undefined tensor");
  if (!is_differentiable(loss))
    fail(operation, loc, "the loss must be a floating number, it is ", to_string(type_of(loss)));
  if (!(type_of(loss).shape.element_count() == Dim(1)))
    fail(operation, loc, "the loss must be one number, it is ", to_string(type_of(loss)),
         ": reduce it with sum or mean");
  Tensor seed;
  {
    InPlaceOf scope(*loss.node(), loc);
    seed = constant_like(1, type_of(loss), loc);
  }
  Backward pass(std::span(&loss, 1), variables, operation, loc);
  std::vector<Tensor> gradients = pass.run(std::span(&seed, 1));
  reached = pass.reached_variables();
  if (std::ranges::count(reached, true) == 0)
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

std::vector<Tensor> pull_back(std::span<const Tensor> values, std::span<const Tensor> gradients,
                              std::span<const Tensor> variables, const char* operation, Loc loc) {
  return Backward(values, variables, operation, loc).run(gradients);
}

}  // namespace weft
