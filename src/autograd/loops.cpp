#include "autograd/loops.hpp"

#include <algorithm>
#include <unordered_map>

#include "autograd/backward.hpp"
#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "record/loops.hpp"

namespace weft {
namespace {

bool is_float(const Tensor& value) { return is_floating(type_of(value).dtype); }

// Which inputs of a body each of its outputs depends on, through floating values.
std::vector<std::vector<bool>> dependences(const Graph& body) {
  const std::size_t inputs = body.inputs.size();
  std::unordered_map<const Node*, std::vector<bool>> of;
  for (const Tensor& value : body.nodes) {
    std::vector<bool>& all = of[value.node()];
    all.resize(inputs);
    if (value.node()->op == Op::input && is_float(value))
      all[static_cast<std::size_t>(value.node()->attributes<Parameter>().slot)] = true;
    if (value.node()->op == Op::stop_gradient) continue;
    for (const Tensor& operand : value.node()->inputs()) {
      if (!is_float(operand)) continue;
      const std::vector<bool>& below = of.at(operand.node());
      for (std::size_t i = 0; i < inputs; ++i) all[i] = all[i] || below[i];
    }
  }
  std::vector<std::vector<bool>> outputs;
  for (const Tensor& output : body.outputs)
    outputs.push_back(is_float(output) ? of.at(output.node()) : std::vector<bool>(inputs));
  return outputs;
}

// Computed again where it is read: what moves no more bytes than it would take to keep it.
bool is_cheap(const Node& node) {
  switch (info(node.op).kind) {
    case OpKind::pointwise:
    case OpKind::cast:
    case OpKind::view:
    case OpKind::identity:
    case OpKind::assemble: return true;
    case OpKind::leaf: return node.op != Op::input;
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
    case Op::cast: return is_float(node.input(0)) && is_floating(node.type.dtype);
    default: return false;
  }
}

// ---- the derivative of a scan ---------------------------------------------------------------------------------------

class ScanDerivative {
 public:
  explicit ScanDerivative(const Pullback& p)
      : p_(p),
        node_(p.node()),
        scan_(node_.attributes<Scan>()),
        body_(*node_.bodies()[0]),
        carries_(static_cast<std::size_t>(scan_.carries)),
        scanned_(static_cast<std::size_t>(scan_.scanned)),
        scope_(node_.loc, nullptr, node_.scope) {}

  void run() {
    choose_carries();
    if (!record_body()) return;
    classify();
    for (std::size_t i = carries_ + scanned_; i < node_.operand_count; ++i)
      if (gradient_of(i).defined()) find_terms(i, gradient_of(i), {});
    accumulate_rest();
    collect_needed();
    scope_.close();
    WEFT_CHECK(scope_.captured().empty() && scope_.generators().empty(), "the derivative of a body captures");
    record_forward();
    record_backward();
    give_results();
  }

 private:
  // ---- which carries have gradients: those that depend on what is wanted, and that reach a result with a gradient
  // -----

  void choose_carries() {
    const std::vector<std::vector<bool>> depends = dependences(body_);
    std::vector<bool> varies(node_.operand_count), reaches(carries_);
    for (std::size_t i = 0; i < varies.size(); ++i) varies[i] = p_.wanted[i];
    for (std::size_t k = 0; k < carries_; ++k) reaches[k] = p_.gradients[k].defined();
    const auto note = [&](std::size_t output) {
      bool changed = false;
      for (std::size_t k = 0; k < carries_; ++k)
        if (depends[output][k] && !reaches[k]) changed = reaches[k] = true;
      return changed;
    };
    for (std::size_t y = carries_; y < depends.size(); ++y)
      if (p_.gradients[y].defined()) note(y);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t k = 0; k < carries_; ++k) {
        bool now = varies[k];
        for (std::size_t i = 0; i < varies.size(); ++i) now = now || (varies[i] && depends[k][i]);
        changed = changed || now != varies[k];
        varies[k] = now;
        changed = (reaches[k] && note(k)) || changed;
      }
    }
    for (std::size_t k = 0; k < carries_; ++k)
      active_.push_back(varies[k] && reaches[k] && is_floating(type_of(body_.inputs[k]).dtype));
  }

  // ---- the body and its derivative as one graph
  // -----------------------------------------------------------------------

  bool has_gradient(std::size_t operand) const { return operand < carries_ ? active_[operand] : p_.wanted[operand]; }
  const Tensor& gradient_of(std::size_t operand) const { return gradients_[operand]; }

  // False where every gradient is zero.
  bool record_body() {
    const std::uint32_t trace = scope_.id();
    std::vector<Tensor> arguments, variables, effects, values, gradients;
    for (const Tensor& input : body_.inputs) inputs_.push_back(scope_.input(type_of(input)));
    seeds_.resize(node_.output_count);
    for (std::size_t i = 0; i < seeds_.size(); ++i)
      if (i < carries_ ? active_[i] : p_.gradients[i].defined()) seeds_[i] = scope_.input(type_of(body_.outputs[i]));
    arguments = inputs_;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (has_gradient(i)) variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, node_.loc));
    if (variables.empty()) return false;
    const std::vector<Tensor> results = apply_body(
        body_, arguments, {node_.loc, node_.scope, trace}, [](const Node&) { return false; }, effects);
    for (std::size_t i = 0; i < seeds_.size(); ++i)
      if (seeds_[i].defined()) values.push_back(results[i]), gradients.push_back(seeds_[i]);
    if (values.empty()) return false;
    const std::vector<Tensor> found = pull_back(values, gradients, variables, "grad", node_.loc);
    std::vector<Tensor> outputs = results, all_inputs = inputs_;
    for (const Tensor& gradient : found)
      if (gradient.defined()) outputs.push_back(gradient);
    for (const Tensor& seed : seeds_)
      if (seed.defined()) all_inputs.push_back(seed);
    const Graph recorded = make_graph(all_inputs, outputs, effects);
    joint_ = with_calls_inlined(recorded, [](const Node& node) { return node.op == Op::call; });
    results_.assign(joint_.outputs.begin(), joint_.outputs.begin() + node_.output_count);
    gradients_.resize(node_.operand_count);
    std::size_t next = node_.output_count;
    for (std::size_t i = 0, v = 0; i < gradients_.size(); ++i)
      if (has_gradient(i) && found[v++].defined()) gradients_[i] = joint_.outputs[next++];
    return true;
  }

  // What depends on a gradient is computed in the backward loop; all else the forward loop has.
  void classify() {
    for (const Tensor& seed : seeds_)
      if (seed.defined()) backward_[seed.node()] = true;
    for (const Tensor& value : joint_.nodes) {
      bool& behind = backward_[value.node()];
      for (const Tensor& operand : value.node()->inputs()) behind = behind || backward_[operand.node()];
    }
  }
  bool is_backward(const Tensor& value) const { return backward_.at(value.node()); }
  static Tensor below_variables(Tensor value) {
    while (value.node()->op == Op::variable) value = value.node()->input(0);
    return value;
  }
  std::size_t slot(const Tensor& input) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].node() == input.node()) return i;
    return inputs_.size();
  }

  // ---- gradients of captures: the sum over iterations
  // -----------------------------------------------------------------

  // A product, a sum over axes or rows added into a table, whose operands are stacked, so that one large one stands
  // behind the loop; else a value that is added up in the loop. `behind`: what is done with the sum, from the outside
  // in.
  struct Term {
    std::size_t operand;  // of the scan
    Tensor value;
    std::vector<const Node*> behind;
    bool in_loop = false;
  };

  void find_terms(std::size_t operand, Tensor value, std::vector<const Node*> behind) {
    value = below_variables(value);
    const Node& node = *value.node();
    const bool alone = value.output() == 0 && is_backward(value);
    if (alone && node.op == Op::add) {
      find_terms(operand, node.input(0), behind);
      return find_terms(operand, node.input(1), std::move(behind));
    }
    if (alone && passes_sums(node)) {
      behind.push_back(&node);
      return find_terms(operand, node.input(0), std::move(behind));
    }
    const bool can_stack = std::ranges::all_of(node.inputs(), [&](const Tensor& each) {
      const std::size_t i = slot(stacked_value(each));
      const bool is_capture = i >= carries_ + scanned_ && i < inputs_.size();  // the same in all iterations
      return type_of(each).shape.rank() < max_rank && !is_capture;
    });
    const bool outside =
        alone && can_stack && (node.op == Op::matmul || node.op == Op::scatter_add || node.op == Op::sum);
    terms_.push_back({operand, value, std::move(behind), !outside});
    if (outside && node.op != Op::sum)
      for (const Tensor& each : node.inputs()) stack(each);
  }

  // The value over all iterations, [length, ...]: index of it among what the backward loop stacks, unless there is one
  // already.
  void stack(const Tensor& given) {
    const Tensor value = stacked_value(given);
    if (is_stacked(value)) return;
    stacked_.push_back(value);
  }
  // Below what is a view of the stack as well.
  Tensor stacked_value(const Tensor& given) const {
    Tensor value = below_variables(given);
    while (value.node()->op == Op::permute) value = below_variables(value.node()->input(0));
    return value;
  }
  bool is_stacked(const Tensor& value) const {
    if (!is_backward(value)) {
      const std::size_t i = slot(value);
      if (i < carries_ + scanned_ || (value.node()->op != Op::input && !is_cheap(*value.node()))) return true;
    }
    return std::ranges::any_of(stacked_, [&](const Tensor& each) { return each.same(value); });
  }

  // Sums of what is stacked anyway stand behind the loop; other terms of a capture are added up in it.
  void accumulate_rest() {
    for (std::size_t i = carries_; i < carries_ + scanned_; ++i)
      if (gradient_of(i).defined()) stack_slice(i);
    for (Term& term : terms_) {
      const Node& node = *term.value.node();
      if (!term.in_loop && node.op == Op::sum) term.in_loop = !is_stacked(stacked_value(node.input(0)));
    }
  }
  void stack_slice(std::size_t operand) {
    const Tensor value = below_variables(gradients_[operand]);
    if (std::ranges::none_of(stacked_, [&](const Tensor& each) { return each.same(value); })) stacked_.push_back(value);
  }

  // ---- what the backward loop reads
  // -----------------------------------------------------------------------------------

  void collect_needed() {
    for (std::size_t k = 0; k < carries_; ++k)
      if (active_[k] && gradients_[k].defined()) need(gradients_[k]);
    for (const Tensor& value : stacked_) need(value);
    for (const Term& term : terms_) {
      if (term.in_loop) {
        need(term.value);
        continue;
      }
      for (const Tensor& operand : term.value.node()->inputs())
        if (const Tensor value = stacked_value(operand); !is_backward(value)) read_outside(value);
    }
  }
  void need(const Tensor& given) {
    const Tensor value = below_variables(given);
    const Node& node = *value.node();
    if (!is_backward(value)) {
      const std::size_t i = slot(value);
      if (i < carries_ || (i == inputs_.size() && !is_cheap(node))) return save(value);
      if (i < inputs_.size()) return read(i);
    }
    if (!needed_.insert({&node, true}).second) return;
    for (const Tensor& operand : node.inputs()) need(operand);
  }
  void read(std::size_t input) {
    if (std::ranges::find(read_, input) == read_.end()) read_.push_back(input);
  }
  void save(const Tensor& value) {
    if (std::ranges::none_of(saved_, [&](const Tensor& each) { return each.same(value); })) saved_.push_back(value);
  }
  void read_outside(const Tensor& value) {
    const std::size_t i = slot(value);
    if (i < carries_ || (i == inputs_.size() && !is_cheap(*value.node()))) save(value);
  }

  // ---- the loops
  // ------------------------------------------------------------------------------------------------------

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
      if (is_effect(node)) effects.push_back(copied);
    }
  };

  // The forward loop once more, with what is saved as further results; a pass puts it in the place of the first.
  void record_forward() {
    saved_stacks_.clear();
    if (saved_.empty()) return;
    const Builder build(node_.loc, node_.scope, scope_.id());
    Copier copier{.trace = scope_.id()};
    std::vector<Tensor> inputs, outputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs.push_back(build.input(i, type_of(inputs_[i])));
      copier.made.emplace(inputs_[i].word(), inputs.back());
    }
    std::unordered_map<const Node*, bool> wanted;
    std::vector<Tensor> open;
    for (const std::vector<Tensor>* roots : {&results_, &saved_, &joint_.effects})
      for (const Tensor& root : *roots)
        if (!is_backward(root)) open.push_back(root);
    while (!open.empty()) {
      const Tensor value = open.back();
      open.pop_back();
      if (!wanted.insert({value.node(), true}).second) continue;
      for (const Tensor& operand : value.node()->inputs()) open.push_back(operand);
    }
    for (const Tensor& value : joint_.nodes)
      if (wanted.contains(value.node()) && value.node()->op != Op::input && value.node()->op != Op::variable)
        copier.copy(value);
    std::vector<Type> types{node_.type};
    types.insert(types.end(), node_.more_types().begin(), node_.more_types().end());
    for (const Tensor& value : results_) outputs.push_back(copier.at(value));
    for (const Tensor& value : saved_) {
      outputs.push_back(copier.at(value));
      types.push_back(stacked(type_of(value), scan_.length));
    }
    auto body = std::make_shared<const Graph>(make_graph(std::move(inputs), std::move(outputs), copier.effects));
    const Tensor longer = record_region(Op::scan, node_.inputs(), scan_, types, {std::move(body)}, node_.loc);
    longer.node()->more->extends = node_.bodies()[0];
    for (std::size_t i = 0; i < saved_.size(); ++i)
      saved_stacks_.emplace_back(longer.node(), static_cast<unsigned>(results_.size() + i));
  }

  static Tensor zeros_of(const Tensor& like, Loc loc) {
    Type type = type_of(like);
    type.weak = false;
    return constant_like(0, type, loc);
  }

  // Carries: gradients of carries, sums of terms. Scanned: gradients of what was stacked, slices, what was saved.
  // Captures: those of the body.
  void record_backward() {
    const std::uint32_t trace = scope_.id();
    const Builder build(node_.loc, node_.scope, trace);
    Copier copier{.trace = trace};
    std::vector<Tensor> operands, inputs, outputs;
    const auto add = [&](const Tensor& operand, const Type& type) {
      operands.push_back(operand);
      return inputs.emplace_back(build.input(inputs.size(), type));
    };
    const auto take = [&](const Tensor& operand, const Tensor& value) {
      copier.made.emplace(value.word(), add(operand, type_of(value)));
    };
    for (std::size_t k = 0; k < carries_; ++k)
      if (active_[k]) {
        const Tensor& given = p_.gradients[k];
        take(given.defined() ? given : zeros_of(seeds_[k], node_.loc), seeds_[k]);
      }
    std::vector<Tensor> totals;
    for (const Term& term : terms_)
      if (term.in_loop) {
        const Tensor start = zeros_of(term.value, node_.loc);
        totals.push_back(add(start, type_of(start)));
      }
    const std::size_t carries = operands.size();
    for (std::size_t y = carries_; y < seeds_.size(); ++y)
      if (seeds_[y].defined()) take(p_.gradients[y], seeds_[y]);
    for (const std::size_t i : read_)
      if (i < carries_ + scanned_) take(node_.input(i), inputs_[i]);
    for (std::size_t i = 0; i < saved_.size(); ++i) take(saved_stacks_[i], saved_[i]);
    const std::size_t scanned = operands.size() - carries;
    for (const std::size_t i : read_)
      if (i >= carries_ + scanned_) take(node_.input(i), inputs_[i]);
    for (const Tensor& value : joint_.nodes)
      if (needed_.contains(value.node()) && !copier.made.contains(value.word()) && value.node()->op != Op::input)
        copier.copy(value);

    std::vector<Type> types;
    for (std::size_t k = 0; k < carries_; ++k)
      if (active_[k])
        outputs.push_back(gradients_[k].defined()
                              ? copier.at(gradients_[k])
                              : build.constant(Constant::number(type_of(seeds_[k]).dtype, 0), type_of(seeds_[k])));
    std::size_t next = 0;
    for (const Term& term : terms_)
      if (term.in_loop) outputs.push_back(build.add(totals[next++], copier.at(term.value)));
    for (const Tensor& output : outputs) types.push_back(type_of(output));
    for (const Tensor& value : stacked_) {
      outputs.push_back(copier.at(value));
      types.push_back(stacked(type_of(value), scan_.length));
    }
    if (outputs.empty()) return;
    if (carries + scanned == 0) return;
    auto body = std::make_shared<const Graph>(make_graph(std::move(inputs), std::move(outputs), copier.effects));
    const Scan attributes{static_cast<std::int64_t>(carries), static_cast<std::int64_t>(scanned), scan_.length,
                          !scan_.reverse};
    backward_results_ = results_of(record_region(Op::scan, operands, attributes, types, {std::move(body)}, node_.loc));
    first_stack_ = carries;
  }

  // ---- gradients of the operands
  // --------------------------------------------------------------------------------------

  void give_results() {
    std::size_t next = 0;
    for (std::size_t k = 0; k < carries_; ++k)
      if (active_[k]) {
        if (p_.wanted[k]) p_.results[k] = backward_results_[next];
        ++next;
      }
    for (std::size_t i = carries_; i < carries_ + scanned_; ++i)
      if (gradient_of(i).defined()) p_.results[i] = stack_of(below_variables(gradient_of(i)));
    const RecordingBuilder build;
    for (const Term& term : terms_) {
      Tensor value = term.in_loop ? backward_results_[next++] : over_iterations(term);
      for (auto each = term.behind.rbegin(); each != term.behind.rend(); ++each)
        value = build.make((*each)->op, std::span(&value, 1), (*each)->attributes(), (*each)->type);
      Tensor& total = p_.results[term.operand];
      total = total.defined() ? build.add(total, value) : value;
    }
  }

  // [length, ...] of a value that is stacked.
  Tensor stack_of(const Tensor& value) const {
    for (std::size_t i = 0; i < stacked_.size(); ++i)
      if (stacked_[i].same(value)) return backward_results_[first_stack_ + i];
    for (std::size_t i = 0; i < saved_.size(); ++i)
      if (saved_[i].same(value)) return saved_stacks_[i];
    return node_.input(slot(value));
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

  Tensor over_iterations(const Term& term) const {
    const RecordingBuilder build;
    const Node& node = *term.value.node();
    if (node.op == Op::sum) {
      AxisSet axes;
      axes.insert(0);
      for (int i = 0; i + 1 < max_rank; ++i)
        if (node.attributes<Reduce>().axes[i]) axes.insert(i + 1);
      return build.reshape(build.sum(with_views(node.input(0)), axes), node.type.shape);
    }
    if (node.op == Op::scatter_add)
      return build.make(Op::scatter_add, {with_views(node.input(0)), with_views(node.input(1))}, {}, node.type);
    return build.make(Op::matmul, {joined(node.input(0), true), joined(node.input(1), false)});
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
      merged.push_back(summed ? scan_.length * shape[i] : shape[i]);
    }
    Tensor all = with_views(value);
    if (axes[0] != 0) all = build.permute(all, axes);
    return build.reshape(all, merged);
  }

  const Pullback& p_;
  const Node& node_;
  const Scan scan_;
  const Graph& body_;
  const std::size_t carries_, scanned_;
  LoopBody scope_;
  std::vector<bool> active_;            // by carry
  std::vector<Tensor> inputs_, seeds_;  // of the joint graph: the body's, and gradients by output of the node
  Graph joint_;
  std::vector<Tensor> results_, gradients_;  // by output, by operand
  std::unordered_map<const Node*, bool> backward_, needed_;
  std::vector<Term> terms_;
  std::vector<Tensor> stacked_;  // what the backward loop stacks
  std::vector<std::size_t> read_;
  std::vector<Tensor> saved_, saved_stacks_, backward_results_;
  std::size_t first_stack_ = 0;
};

}  // namespace

void differentiate_scan(const Pullback& p) { ScanDerivative(p).run(); }

// ---- the derivative of a choice -------------------------------------------------------------------------------------

void differentiate_cond(const Pullback& p) {
  const Node& node = p.node();
  std::vector<std::vector<Tensor>> given(2), inputs(2);
  std::optional<LoopBody> scopes[2];
  std::vector<Tensor> operands(node.inputs().begin(), node.inputs().end());
  for (const Tensor& gradient : p.gradients)
    if (gradient.defined()) operands.push_back(gradient);
  for (std::size_t b = 0; b < 2; ++b) {
    const Graph& body = *node.bodies()[b];
    LoopBody& scope = scopes[b].emplace(node.loc, nullptr, node.scope);
    std::vector<Tensor> arguments, variables, values, seeds, effects;
    for (const Tensor& input : body.inputs) arguments.push_back(scope.input(type_of(input)));
    inputs[b] = arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (p.wanted[i + 1]) variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, node.loc));
    const std::vector<Tensor> results = apply_body(
        body, arguments, {node.loc, node.scope, scope.id()}, [](const Node&) { return false; }, effects);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!p.gradients[i].defined()) continue;
      values.push_back(results[i]);
      seeds.push_back(inputs[b].emplace_back(scope.input(type_of(results[i]))));
    }
    given[b] = pull_back(values, seeds, variables, "grad", node.loc);
    // Zeros where the other branch alone has a gradient.
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (!given[b][i].defined()) {
        Type type = type_of(variables[i]);
        type.weak = false;
        given[b][i] = constant_like(0, type, node.loc);
      }
    scope.close();
    WEFT_CHECK(scope.captured().empty(), "the derivative of a branch captures");
  }
  std::vector<Type> types;
  for (const Tensor& gradient : given[0]) types.push_back(type_of(gradient));
  std::vector<std::shared_ptr<const Graph>> bodies;
  for (std::size_t b = 0; b < 2; ++b) bodies.push_back(scopes[b]->take(std::move(inputs[b]), std::move(given[b])));
  const std::vector<Tensor> results =
      results_of(record_region(Op::cond, operands, {}, types, std::move(bodies), node.loc));
  for (std::size_t i = 0, next = 0; i < p.results.size(); ++i)
    if (i > 0 && p.wanted[i]) p.results[i] = results[next++];
}

}  // namespace weft
