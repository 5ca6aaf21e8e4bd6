// The batches of calls: of composites, of checkpointed functions, and of functions with a derivative of their own.
#include <algorithm>

#include "base/fail.hpp"
#include "batching/batched_body.hpp"
#include "record/composite.hpp"
#include "record/custom_callee.hpp"
#include "record/ones.hpp"
#include "record/record_body.hpp"

namespace weft {
namespace {

constexpr RecordingBuilder build;
using Results = std::vector<Batched>;
using Flags = std::vector<bool>;

constexpr char kind = 0;

// The composites over axes of one operand, which the batch is as well.
constexpr std::string_view over_axes[] = {"softmax", "log_softmax", "logsumexp", "mean",
                                          "nanmean", "var",         "std",       "norm"};

// What the batch of a call is: the same composite one axis further, so that whoever does it whole finds it; else one of
// its own.
struct BatchedCall {
  Attributes called;
  bool is_same;
  bool takes_all;  // operands in which examples do not differ are expanded
};
BatchedCall batched_call(const BatchedNode& b) {
  const Attributes& called = b.node.attributes();
  const std::string& name = interned_text(called_name(called).id);
  if (b.node.definition) return {called, false, true};
  if (name == "scaled_dot_product_attention" && !called.as<AttentionCall>().has_mods()) return {called, true, true};
  if (std::ranges::find(over_axes, name) != std::end(over_axes)) {
    ReducedCall over = called.as<ReducedCall>();
    over.axes.bits = static_cast<std::uint8_t>(over.axes.bits << 1);
    return {over, true, false};
  }
  return {Called{{intern_text("vmap_" + name)}}, false, false};
}

Tensor sum_of_examples(const Tensor& all) {
  AxisSet examples;
  examples.insert(0);
  Shape shape;
  for (int i = 1; i < type_of(all).shape.rank(); ++i) shape.push_back(type_of(all).shape[i]);
  return build.reshape(build.sum(settled_for_sum(all, examples, recorder().loc), examples), shape);
}

// Records the batch of a body in a body of its own.
Graph batch_body(const Attributes& called, const Graph& body, const Batcher& batcher, const Flags& flags) {
  CallBody scope(called);
  Results operands;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const Type& type = type_of(body.inputs[i]);
    operands.push_back({scope.input(flags[i] ? batcher.type(type) : type), static_cast<bool>(flags[i])});
  }
  std::vector<Tensor> outputs;
  for (const Batched& output : batcher.run(body, operands)) outputs.push_back(batcher.all(output));
  return scope.take(std::move(outputs));
}

// The batch of a graph of one example in a body of its own. Its inputs: operands of the node, the examples that are
// active, and others, which differ where `more` says so. finish(batcher, result, i) gives output i.
template <class F>
std::shared_ptr<const Graph> batch_graph(const BatchedNode& b, const Graph& graph, const Flags& more, F finish) {
  BatchedBody scope(b);
  Results inputs;
  Flags differ = flags_of(b.operands);
  differ.insert(differ.end(), more.begin(), more.end());
  scope.append_inputs(inputs, graph, differ, b.batcher, 0, b.operands.size());
  const Tensor active = scope.active(b.batcher);
  scope.append_inputs(inputs, graph, differ, b.batcher, b.operands.size(), differ.size());
  const Batcher inner = b.batcher.among(active);
  std::vector<Tensor> outputs;
  for (const Batched& each : inner.run(graph, inputs)) outputs.push_back(finish(inner, each, outputs.size()));
  return scope.take(std::move(outputs));
}
// The operands of a call of it.
std::vector<Tensor> operands_of_graph(const BatchedNode& b) {
  std::vector<Tensor> operands = values_of(b.operands);
  if (b.batcher.active().defined()) operands.push_back(b.batcher.active());
  return operands;
}

// Each checkpoint has a body of its own, and so has its derivative. It may check.
Results batch_checkpoint(const BatchedNode& b) {
  Callee made{b.node.attributes(), {}};
  Flags differ;
  made.body = *batch_graph(b, b.node.callee()->body, {}, [&](const Batcher&, const Batched& each, std::size_t) {
    differ.push_back(each.differs);
    return each.value;
  });
  const Tensor call = record_call(std::make_shared<const Callee>(std::move(made)), operands_of_graph(b), b.node.loc);
  if (b.node.recomputation) mark_as_recomputation(call);
  return batched_results(call, differ);
}

// A function with a derivative of the program's own: another one, whose body and rule are the batches of its own. Where
// an operand is the same for all examples its gradient is the sum of theirs.
Results batch_custom(const BatchedNode& b, const CustomCallee& of) {
  const auto made = std::make_shared<CustomCallee>(of.called);
  made->rule_output = of.rule_output;
  made->is_forward = of.is_forward;
  made->operand_count = of.operand_count;
  const Flags flags = flags_of(b.operands);
  const auto all = [](const Batcher& inner, const Batched& each, std::size_t) { return inner.all(each); };
  made->body = *batch_graph(b, of.body, {}, all);
  Flags more;
  if (of.is_forward) {
    for (std::size_t i = 0; i < of.operand_count; ++i)
      if (is_floating(type_of(b.node.input(i)).dtype)) more.push_back(flags[i]);
    made->rule = batch_graph(b, *of.rule, more, all);
  } else {
    more.assign(of.rule->inputs.size() - flags.size(), true);
    Flags sums(of.rule->outputs.size());
    for (std::size_t i = 0; i < of.operand_count; ++i)
      if (of.rule_output[i] >= 0) sums[static_cast<std::size_t>(of.rule_output[i])] = !flags[i];
    made->rule = batch_graph(b, *of.rule, more, [&](const Batcher& inner, const Batched& each, std::size_t output) {
      return sums[output] ? sum_of_examples(inner.all(each)) : inner.all(each);
    });
  }
  return batched_results(record_call(made, operands_of_graph(b), b.node.loc), Flags(b.node.output_count, true));
}

}  // namespace

std::vector<Batched> batch_call(const BatchedNode& b) {
  if (const CustomCallee* const custom = custom_callee(b.node)) return batch_custom(b, *custom);
  const Callee& callee = *b.node.callee();
  if (b.node.recomputation || is_checkpoint(callee)) return batch_checkpoint(b);
  const bool checks = !callee.body.effects.empty();
  if (checks || draws(callee.body) || (b.batcher.active().defined() && has_positions(callee.body)))
    return b.batcher.run(callee.body, b.operands);
  const BatchedCall batch = batched_call(b);
  std::vector<Tensor> operands;
  Flags flags;
  Signature signature(reinterpret_cast<std::uintptr_t>(&kind));
  signature.add(reinterpret_cast<std::uintptr_t>(&callee));
  for (std::size_t i = 0; i < b.operands.size(); ++i) {
    flags.push_back(batch.takes_all || b.differs(i));
    operands.push_back(flags.back() ? b.all(i) : b.value(i));
    signature.add(flags.back());
    signature.add(type_of(operands.back()));
  }
  const auto make = [&] {
    Callee made{batch.called, batch_body(batch.called, callee.body, Batcher(b.size(), b.batcher.randomness()), flags)};
    if (batch.is_same) made.derivative = callee.derivative;
    made.made_from = b.node.more->callee;  // which lives as long as the signature that names it
    return made;
  };
  const Tensor value = record_call(shared_callee(signature, make), operands, b.node.loc, b.node.definition);
  return batched_results(value, Flags(b.node.output_count, true));
}

static bool is_batch(const Callee& callee) { return callee.made_from && callee.gradient_at.empty(); }
bool is_batch_with_derivative(const Callee& callee) {
  if (callee.derivative || !is_batch(callee)) return false;
  return callee.made_from->derivative || is_batch_with_derivative(*callee.made_from);
}

void differentiate_batch(const Callee& callee, const CallValues& p, std::span<Tensor> operand_gradients) {
  const Callee& one = *callee.made_from;
  Flags flags;
  Dim size = 1;
  Results operands;
  std::vector<Tensor> inputs;
  std::vector<unsigned> given_at;
  Graph derivative = [&] {
    CallBody scope(one.called);
    std::vector<Tensor> values, results, gradients(p.gradients.size()), given(p.operands.size()), outputs;
    const auto add = [&](const Type& type, const Tensor& value) {
      operands.push_back({value, type_of(value).shape.rank() > type.shape.rank()});
      if (operands.back().differs) size = type_of(value).shape[0];
      return scope.input(type);
    };
    for (std::size_t i = 0; i < p.operands.size(); ++i)
      values.push_back(add(type_of(one.body.inputs[i]), p.operands[i]));
    for (std::size_t i = 0; i < p.results.size(); ++i)
      results.push_back(add(type_of(one.body.outputs[i]), p.results[i]));
    for (std::size_t i = 0; i < p.gradients.size(); ++i)
      if (p.gradients[i].defined()) gradients[i] = add(type_of(one.body.outputs[i]), p.gradients[i]);
    bool is_whole = false;
    const CallValues inner{one.called, values, results, gradients, p.wanted, is_whole};
    if (one.derivative)
      one.derivative(inner, given);
    else
      differentiate_batch(one, inner, given);
    for (unsigned i = 0; i < given.size(); ++i)
      if (p.wanted[i] && given[i].defined()) outputs.push_back(given[i]), given_at.push_back(i);
    return scope.take(std::move(outputs));
  }();
  const Batcher batcher(size, Randomness::same);
  const Results found = batcher.run(derivative, operands);
  for (std::size_t k = 0; k < found.size(); ++k) {
    const unsigned i = given_at[k];
    const Tensor gradient = batcher.all(found[k]);
    operand_gradients[i] = operands[i].differs ? gradient : sum_of_examples(gradient);
  }
}

}  // namespace weft
