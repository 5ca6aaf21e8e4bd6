#include <algorithm>
#include <optional>
#include <unordered_map>

#include "autograd/loops.hpp"
#include "autograd/scan_plan.hpp"
#include "autograd/zeros.hpp"
#include "base/fail.hpp"
#include "ir/host_function.hpp"
#include "ir/offload_mark.hpp"
#include "record/ones.hpp"

namespace weft {
namespace {

// The loops of the derivative, and the operations that follow them.
class ScanDerivative {
 public:
  // `trace`: of the nodes of the joint graph.
  ScanDerivative(const JointBody& body, const ScanPlan& plan, std::uint32_t trace)
      : body_(body), plan_(plan), trace_(trace) {}

  void run() {
    record_forward();
    record_backward();
    give_results();
  }

 private:
  // Copies nodes of the joint graph into a body.
  struct Copier {
    std::unordered_map<std::uint64_t, Tensor> made = {};  // by handle
    std::vector<Tensor> effects = {};
    std::uint32_t trace;

    Tensor at(const Tensor& value) const { return made.at(below_variables(value).word()); }
    void copy(const Tensor& value) {
      const Node& node = *value.node();
      std::vector<Tensor> operands;
      for (const Tensor& operand : node.inputs()) operands.push_back(at(operand));
      const Tensor copied = Builder::copy(node, operands);
      copied.node()->trace = trace;
      for (unsigned i = 0; i < node.output_count; ++i)
        made.emplace(Tensor(value.node(), i).word(), Tensor(copied.node(), i));
      if (is_effect(node)) effects.push_back(copied);  // the program's code is called by the first loop alone
    }
  };

  // Index of the loop's result that stacks the value, where the program's code has given it: nobody calls that again.
  std::optional<unsigned> given_stack(const Tensor& value) const {
    if (runs_once(*value.node()))
      for (std::size_t i = body_.carries(); i < body_.results().size(); ++i)
        if (below_variables(body_.results()[i]).same(value)) return static_cast<unsigned>(i);
    return std::nullopt;
  }

  // The forward loop once more, with what is saved as further results. It runs in the place of the first: merge_loops,
  // and compute_by outside a trace. It reads what the program's code has given, and is a loop of its own where there is
  // something.
  void record_forward() {
    std::vector<Tensor> saved;
    for (const Tensor& value : plan_.saved())
      if (!given_stack(value)) saved.push_back(value);
    std::vector<Tensor> made;
    if (!saved.empty()) made = longer_loop(saved);
    for (std::size_t i = 0, next = 0; i < plan_.saved().size(); ++i) {
      const std::optional<unsigned> given = given_stack(plan_.saved()[i]);
      saved_stacks_.push_back(given ? Tensor(body_.pullback().value.node(), *given) : made[next++]);
    }
  }
  // The stacks of what is saved.
  std::vector<Tensor> longer_loop(std::span<const Tensor> saved) {
    const Builder build(body_.node().loc, body_.node().scope, trace_);
    Copier copier{.trace = trace_};
    std::unordered_map<const Node*, bool> wanted;
    std::vector<Tensor> open, given;
    for (const std::span<const Tensor> roots :
         {std::span<const Tensor>(body_.results()), saved, std::span<const Tensor>(body_.graph().effects)})
      for (const Tensor& root : roots)
        if (!body_.is_backward(root) &&
            (root.node()->op != Op::host_call || given_stack(root) || is_saved(saved, root)))
          open.push_back(root);
    while (!open.empty()) {
      const Tensor value = below_variables(open.back());
      open.pop_back();
      if (given_stack(value)) {
        if (!is_saved(given, value)) given.push_back(value);
        continue;
      }
      if (!wanted.insert({value.node(), true}).second) continue;
      for (const Tensor& operand : value.node()->inputs()) open.push_back(operand);
    }
    std::vector<Tensor> operands, inputs, outputs;
    const std::size_t slices = body_.carries() + body_.scanned();
    const auto add = [&](const Tensor& operand, const Tensor& value) {
      operands.push_back(operand);
      inputs.push_back(build.input(inputs.size(), type_of(value)));
      copier.made.emplace(value.word(), inputs.back());
    };
    for (std::size_t i = 0; i < slices; ++i) add(body_.node().input(i), body_.inputs()[i]);
    for (const Tensor& value : given) add(Tensor(body_.pullback().value.node(), *given_stack(value)), value);
    for (std::size_t i = slices; i < body_.inputs().size(); ++i) add(body_.node().input(i), body_.inputs()[i]);
    for (const Tensor& value : body_.graph().nodes)
      if (wanted.contains(value.node()) && value.node()->op != Op::input && value.node()->op != Op::variable)
        copier.copy(value);
    std::vector<Type> types{body_.node().type};
    types.insert(types.end(), body_.node().more_types().begin(), body_.node().more_types().end());
    for (const Tensor& value : body_.results()) outputs.push_back(copier.at(value));
    for (const Tensor& value : saved) {
      outputs.push_back(copier.at(value));
      types.push_back(stacked(type_of(value), body_.scan().length));
    }
    Scan attributes = body_.scan();
    attributes.scanned += static_cast<std::int64_t>(given.size());
    std::shared_ptr<const Graph> body = with_stacks_of_host(
        std::make_shared<const Graph>(make_graph(std::move(inputs), std::move(outputs), copier.effects)), attributes,
        types);
    const Tensor longer = record_region(Op::scan, operands, attributes, types, {std::move(body)}, body_.node().loc);
    longer.node()->region |= body_.node().region & offload_mark;  // it takes the place of the loop
    if (given.empty()) {
      longer.node()->more->extends = body_.node().bodies()[0];
      if (!recorder().trace()) compute_by(body_.pullback().value, longer);
    }
    std::vector<Tensor> stacks;
    for (std::size_t i = 0; i < saved.size(); ++i)
      stacks.emplace_back(longer.node(), static_cast<unsigned>(body_.results().size() + i));
    return stacks;
  }
  static bool is_saved(std::span<const Tensor> saved, const Tensor& value) {
    return std::ranges::any_of(saved, [&](const Tensor& each) { return each.same(value); });
  }

  // Carries: gradients of carries, sums of terms. Scanned: gradients of what was stacked, slices, what was saved.
  // Captures: those of the body.
  void record_backward() {
    const std::uint32_t trace = trace_;
    const Builder build(body_.node().loc, body_.node().scope, trace);
    Copier copier{.trace = trace};
    std::vector<Tensor> operands, inputs, outputs;
    const auto add = [&](const Tensor& operand, const Type& type) {
      operands.push_back(operand);
      return inputs.emplace_back(build.input(inputs.size(), type));
    };
    const auto take = [&](const Tensor& operand, const Tensor& value) {
      copier.made.emplace(value.word(), add(operand, type_of(value)));
    };
    for (std::size_t k = 0; k < body_.carries(); ++k)
      if (body_.active()[k]) {
        const Tensor& given = body_.pullback().gradients[k];
        take(given.defined() ? given : zeros_of(body_.seeds()[k], body_.node().loc), body_.seeds()[k]);
      }
    std::vector<Tensor> totals;
    for (const ScanPlan::Term& term : plan_.terms())
      if (term.in_loop) {
        const Tensor start = zeros_of(term.value, body_.node().loc);
        totals.push_back(add(start, type_of(start)));
      }
    const std::size_t carries = operands.size();
    for (std::size_t y = body_.carries(); y < body_.seeds().size(); ++y)
      if (body_.seeds()[y].defined()) take(body_.pullback().gradients[y], body_.seeds()[y]);
    for (const std::size_t i : plan_.read())
      if (i < body_.carries() + body_.scanned()) take(body_.node().input(i), body_.inputs()[i]);
    for (std::size_t i = 0; i < plan_.saved().size(); ++i) take(saved_stacks_[i], plan_.saved()[i]);
    const std::size_t scanned = operands.size() - carries;
    for (const std::size_t i : plan_.read())
      if (i >= body_.carries() + body_.scanned()) take(body_.node().input(i), body_.inputs()[i]);
    for (const Tensor& value : body_.graph().nodes)
      if (plan_.needs(value) && !copier.made.contains(value.word()) && value.node()->op != Op::input)
        copier.copy(value);

    std::vector<Type> types;
    for (std::size_t k = 0; k < body_.carries(); ++k)
      if (body_.active()[k])
        outputs.push_back(
            body_.gradients()[k].defined()
                ? copier.at(body_.gradients()[k])
                : build.constant(Constant::number(type_of(body_.seeds()[k]).dtype, 0), type_of(body_.seeds()[k])));
    std::size_t next = 0;
    for (const ScanPlan::Term& term : plan_.terms())
      if (term.in_loop) outputs.push_back(build.add(totals[next++], copier.at(term.value)));
    for (const Tensor& output : outputs) types.push_back(type_of(output));
    for (const Tensor& value : plan_.stacked()) {
      outputs.push_back(copier.at(value));
      types.push_back(stacked(type_of(value), body_.scan().length));
    }
    if (outputs.empty()) return;
    if (carries + scanned == 0) return;
    const Scan attributes{static_cast<std::int64_t>(carries), static_cast<std::int64_t>(scanned), body_.scan().length,
                          !body_.scan().reverse};
    std::shared_ptr<const Graph> body = with_stacks_of_host(
        std::make_shared<const Graph>(make_graph(std::move(inputs), std::move(outputs), copier.effects)), attributes,
        types);
    backward_results_ =
        results_of(record_region(Op::scan, operands, attributes, types, {std::move(body)}, body_.node().loc));
    first_stack_ = carries;
  }

  // ---- gradients of the operands ----

  void give_results() {
    std::size_t next = 0;
    for (std::size_t k = 0; k < body_.carries(); ++k)
      if (body_.active()[k]) {
        if (body_.pullback().wanted[k]) body_.pullback().results[k] = backward_results_[next];
        ++next;
      }
    for (std::size_t i = body_.carries(); i < body_.carries() + body_.scanned(); ++i)
      if (body_.gradients()[i].defined()) body_.pullback().results[i] = stack_of(below_variables(body_.gradients()[i]));
    const RecordingBuilder build;
    for (const ScanPlan::Term& term : plan_.terms()) {
      Tensor value = term.in_loop ? backward_results_[next++] : over_iterations(term);
      for (auto each = term.behind.rbegin(); each != term.behind.rend(); ++each)
        value = build.make((*each)->op, std::span(&value, 1), (*each)->attributes(), (*each)->type);
      Tensor& total = body_.pullback().results[term.operand];
      total = total.defined() ? build.add(total, value) : value;
    }
  }

  // [length, ...] of a value that is stacked.
  Tensor stack_of(const Tensor& value) const {
    for (std::size_t i = 0; i < plan_.stacked().size(); ++i)
      if (plan_.stacked()[i].same(value)) return backward_results_[first_stack_ + i];
    for (std::size_t i = 0; i < plan_.saved().size(); ++i)
      if (plan_.saved()[i].same(value)) return saved_stacks_[i];
    return body_.node().input(body_.slot(value));
  }
  // The same of a value that is stacked below its permutations.
  Tensor with_views(const Tensor& given) const {
    const Tensor value = below_variables(given);
    if (value.node()->op != Op::permute) return stack_of(value);
    AxisList axes;
    axes.push_back(0);
    for (const std::uint8_t axis : value.node()->attributes<Permute>().axes)
      axes.push_back(static_cast<std::uint8_t>(axis + 1));
    return RecordingBuilder().permute(with_views(value.node()->input(0)), axes);
  }

  Tensor over_iterations(const ScanPlan::Term& term) const {
    const RecordingBuilder build;
    const Node& node = *term.value.node();
    if (node.op == Op::sum) {
      AxisSet axes;
      axes.insert(0);
      for (int i = 0; i + 1 < max_rank; ++i)
        if (node.attributes<Reduce>().axes[i]) axes.insert(i + 1);
      const Tensor all = settled_for_sum(with_views(node.input(0)), axes, node.loc);
      return build.reshape(build.sum(all, axes), node.type.shape);
    }
    if (node.op == Op::scatter_add)
      return build.make(Op::scatter_add, {with_views(node.input(0)), with_views(node.input(1))}, {}, node.type);
    return build.make(Op::matmul, {joined(node.input(0), true), joined(node.input(1), false)}, {}, node.type);
  }

  // The operands of all iterations' products side by side, along the axis that the product sums over: the last of the
  // left operand, the last but one of the right one.
  Tensor joined(const Tensor& given, bool left) const {
    const RecordingBuilder build;
    const Tensor value = below_variables(given);
    const Shape shape = type_of(value).shape;
    const int rank = shape.rank();
    if (const Node& node = *value.node(); rank == 2 && node.op == Op::permute &&
                                          node.attributes<Permute>().axes[0] == 1)  // of a transposed one, transposed
      return build.permute(joined(node.input(0), !left), AxisList{{1, 0}, 2});
    AxisList axes;
    Shape merged;
    for (int i = 0; i < rank; ++i) {
      const bool summed = i == (left ? rank - 1 : rank - 2);
      if (summed) axes.push_back(0);
      axes.push_back(static_cast<std::uint8_t>(i + 1));
      merged.push_back(summed ? body_.scan().length * shape[i] : shape[i]);
    }
    Tensor all = with_views(value);
    if (axes[0] != 0) all = build.permute(all, axes);
    return build.reshape(all, merged);
  }

  const JointBody& body_;
  const ScanPlan& plan_;
  const std::uint32_t trace_;
  std::vector<Tensor> saved_stacks_, backward_results_;
  std::size_t first_stack_ = 0;  // among the backward loop's results
};

}  // namespace

void differentiate_scan(const Pullback& p) {
  const Node& node = p.node();
  LoopBody scope({node.loc, nullptr, node.scope});
  const JointBody body(p, scope);
  if (body.is_zero()) return;
  const ScanPlan plan(body);
  scope.close();
  WEFT_CHECK(scope.captured().empty() && scope.generators().empty(), "the derivative of a body captures");
  ScanDerivative(body, plan, scope.id()).run();
}

}  // namespace weft
