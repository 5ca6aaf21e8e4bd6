// The rules of what has a body: calls, loops and choices.
#include <algorithm>
#include <optional>

#include "base/fail.hpp"
#include "batching/batch.hpp"
#include "record/composite.hpp"
#include "record/custom_callee.hpp"
#include "record/loops.hpp"
#include "record/ones.hpp"
#include "record/record_body.hpp"

namespace weft {
namespace {

constexpr RecordingBuilder build;
using Results = std::vector<Batched>;
using Flags = std::vector<bool>;

std::vector<Tensor> values_of(std::span<const Batched> all) {
  std::vector<Tensor> values;
  for (const Batched& each : all) values.push_back(each.value);
  return values;
}
Flags flags_of(std::span<const Batched> all) {
  Flags flags;
  for (const Batched& each : all) flags.push_back(each.differs);
  return flags;
}

// In which outputs of a body examples may differ, where they differ in these inputs.
Flags differing(const Graph& body, const Flags& inputs, const Batcher& batcher) {
  std::vector<bool> of(body.nodes.size());
  const auto read = [&](const Tensor& value) { return static_cast<bool>(of[body.number(value)]); };
  for (std::size_t i = 0; i < of.size(); ++i) {
    const Node& node = *body.nodes[i].node();
    if (node.op == Op::input) {
      of[i] = inputs[static_cast<std::size_t>(node.attributes<Parameter>().slot)];
      continue;
    }
    of[i] = std::ranges::any_of(node.inputs(), read) || is_of_each(node, batcher);
  }
  Flags outputs;
  for (const Tensor& output : body.outputs) outputs.push_back(read(output));
  return outputs;
}

// The flags of carries, the first inputs, once they do not change any more.
void settle_carries(const Graph& body, Flags& inputs, std::size_t carries, const Batcher& batcher) {
  for (bool changed = true; changed;) {
    changed = false;
    const Flags next = differing(body, inputs, batcher);
    for (std::size_t k = 0; k < carries; ++k)
      if (next[k] && !inputs[k]) changed = inputs[k] = true;
  }
}

// A body while its batch is recorded: inputs of the given types, the last one for the examples that are active.
class BatchedBody {
 public:
  BatchedBody(const BatchedNode& b) : loc_(b.node.loc), scope_({b.node.loc, nullptr, b.node.scope}, b.node.loc) {}
  Batched input(const Type& type, bool differs) {
    inputs_.push_back(scope_.input(type));
    return {inputs_.back(), differs};
  }
  Tensor active(const Batcher& batcher) {
    return batcher.active().defined() ? input(type_of(batcher.active()), true).value : Tensor();
  }
  std::shared_ptr<const Graph> take(std::vector<Tensor> outputs) {
    scope_.close();
    WEFT_CHECK(scope_.captured().empty(), "the batch of a body captures");
    return scope_.take(std::move(inputs_), std::move(outputs));
  }

 private:
  const Loc loc_;
  LoopBody scope_;
  std::vector<Tensor> inputs_;
};

Results put(const Tensor& value, const Flags& differs) {
  Results results;
  const std::vector<Tensor> values = results_of(value);
  for (std::size_t i = 0; i < differs.size(); ++i) results.push_back({values[i], differs[i]});
  return results;
}

// `chosen`, a bool [size], chooses between values of all examples.
Tensor selected(const Batcher& batcher, const Tensor& chosen, const Batched& a, const Batched& b) {
  const Tensor first = batcher.all(a), second = batcher.all(b);
  const Shape shape = type_of(first).shape;
  Shape ones = Shape::of(batcher.size());
  for (int i = 1; i < shape.rank(); ++i) ones.push_back(1);
  return build.make(Op::where, {build.expand(build.reshape(chosen, ones), shape), first, second});
}

Tensor swapped(const Tensor& value) {  // axes 0 and 1
  AxisList axes;
  for (int i = 0; i < type_of(value).shape.rank(); ++i) axes.push_back(static_cast<std::uint8_t>(i < 2 ? 1 - i : i));
  return build.permute(value, axes);
}

}  // namespace

bool draws(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Tensor& value) {
    const Node& node = *value.node();
    return node.op == Op::random_bits ||
           std::ranges::any_of(node.bodies(), [](const auto& body) { return draws(*body); });
  });
}

bool has_positions(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Tensor& value) {
    const Node& node = *value.node();
    return info(node.op).kind == OpKind::index ||
           std::ranges::any_of(node.bodies(), [](const auto& body) { return has_positions(*body); });
  });
}

// ---- calls ----------------------------------------------------------------------------------------------------------

namespace {

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
  if (name == "scaled_dot_product_attention") return {called, true, true};
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
  const auto add = [&](bool differs) {
    const Type& one = type_of(graph.inputs[inputs.size()]);
    inputs.push_back(scope.input(differs ? b.batcher.type(one) : one, differs));
  };
  for (const Batched& operand : b.operands) add(operand.differs);
  const Tensor active = scope.active(b.batcher);
  for (const bool differs : more) add(differs);
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
  return put(call, differ);
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
  return put(record_call(made, operands_of_graph(b), b.node.loc), Flags(b.node.output_count, true));
}

}  // namespace

std::vector<Batched> batch_call(const BatchedNode& b) {
  if (const CustomCallee* const custom = custom_callee(b.node)) return batch_custom(b, *custom);
  const Callee& callee = *b.node.callee();
  if (b.node.recomputation || interned_text(called_name(callee.called).id) == "checkpoint") return batch_checkpoint(b);
  const bool checks = !callee.body.effects.empty();
  if (checks || (b.batcher.active().defined() && has_positions(callee.body)))
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
  return put(value, Flags(b.node.output_count, true));
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

// ---- loops and choices ----------------------------------------------------------------------------------------------

std::vector<Batched> batch_by_rows(const BatchedNode& b) {
  LoopBody scope({b.node.loc, nullptr, b.node.scope}, b.node.loc);
  std::vector<Tensor> operands, inputs, arguments(b.operands.size());
  for (const bool differs : {true, false})
    for (std::size_t i = 0; i < b.operands.size(); ++i) {
      if (b.differs(i) != differs) continue;
      operands.push_back(b.value(i));
      arguments[i] = inputs.emplace_back(scope.input(type_of(b.node.input(i))));
    }
  const auto scanned = std::ranges::count_if(b.operands, &Batched::differs);
  const Tensor row = record(b.node.op, arguments, b.node.attributes(), b.node.type, b.node.loc);
  std::vector<Type> types;
  for (const Tensor& result : results_of(row)) types.push_back(stacked(type_of(result), b.size()));
  scope.close();
  std::vector<std::shared_ptr<const Graph>> bodies{scope.take(std::move(inputs), results_of(row))};
  return put(record_region(Op::scan, operands, Scan{0, scanned, b.size(), false}, types, std::move(bodies), b.node.loc),
             Flags(types.size(), true));
}

std::vector<Batched> batch_scan(const BatchedNode& b) {
  const Graph& body = *b.node.bodies()[0];
  Scan scan = b.node.attributes<Scan>();
  const auto carries = static_cast<std::size_t>(scan.carries),
             sources = carries + static_cast<std::size_t>(scan.scanned);
  Flags flags = flags_of(b.operands);
  settle_carries(body, flags, carries, b.batcher);
  const Flags outputs = differing(body, flags, b.batcher);
  std::vector<Tensor> operands, results;
  std::vector<Type> types;
  std::shared_ptr<const Graph> batch;
  {
    BatchedBody scope(b);
    Results inputs;
    for (std::size_t i = 0; i < flags.size(); ++i) {
      const Type& one = type_of(body.inputs[i]);
      inputs.push_back(scope.input(flags[i] ? b.batcher.type(one) : one, flags[i]));
    }
    const Batcher inner = b.batcher.among(scope.active(b.batcher));
    const Results found = inner.run(body, inputs);
    for (std::size_t i = 0; i < found.size(); ++i) {
      results.push_back(outputs[i] ? inner.all(found[i]) : found[i].value);
      WEFT_CHECK(outputs[i] || !found[i].differs, "a result of a scan differs");
      types.push_back(i < carries ? type_of(results[i]) : stacked(type_of(results[i]), scan.length));
    }
    batch = scope.take(std::move(results));
  }
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const bool is_source = i >= carries && i < sources;
    operands.push_back(!flags[i] ? b.value(i) : is_source ? swapped(b.value(i)) : b.all(i));
  }
  if (b.batcher.active().defined()) operands.push_back(b.batcher.active());
  Results made = put(record_region(Op::scan, operands, scan, types, {std::move(batch)}, b.node.loc), outputs);
  for (std::size_t i = carries; i < made.size(); ++i)
    if (made[i].differs) made[i].value = swapped(made[i].value);
  return made;
}

// Where examples differ in the condition, the loop runs as long as it holds for one of them, and the state of those
// for which it does not stays.
std::vector<Batched> batch_while_loop(const BatchedNode& b) {
  const Graph &condition = *b.node.bodies()[0], &body = *b.node.bodies()[1];
  While loop = b.node.attributes<While>();
  const auto carries = static_cast<std::size_t>(loop.carries);
  Flags flags = flags_of(b.operands);
  settle_carries(body, flags, carries, b.batcher);
  const bool differs = differing(condition, flags, b.batcher)[0];
  if (differs) std::fill_n(flags.begin(), carries, true);
  if (differs && (draws(condition) || draws(body)))
    fail("vmap", b.node.loc,
         "examples differ in how often the while_loop runs, and its body draws random numbers: draw them before it");
  const Tensor& active = b.batcher.active();
  const auto inputs_in = [&](BatchedBody& scope) {
    Results inputs;
    for (std::size_t i = 0; i < flags.size(); ++i) {
      const Type& one = type_of(body.inputs[i]);
      inputs.push_back(scope.input(flags[i] ? b.batcher.type(one) : one, flags[i]));
    }
    return inputs;
  };
  const auto holds = [&](const Batcher& among, std::span<const Batched> inputs) {
    const Tensor value = build.reshape(among.all(among.run(condition, inputs)[0]), Shape::of(b.size()));
    return among.active().defined() ? value & among.active() : value;
  };
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < flags.size(); ++i) operands.push_back(flags[i] ? b.all(i) : b.value(i));
  std::vector<Type> types;
  for (std::size_t i = 0; i < carries; ++i) types.push_back(type_of(operands[i]));
  std::vector<std::shared_ptr<const Graph>> bodies;
  // The last operand: which examples go on, a carry, or which are active.
  const auto place = static_cast<std::ptrdiff_t>(carries);
  if (differs) {
    Results first;
    for (std::size_t i = 0; i < flags.size(); ++i) first.push_back({operands[i], static_cast<bool>(flags[i])});
    operands.insert(operands.begin() + place, holds(b.batcher, first));
    types.push_back(type_of(operands[carries]));
    ++loop.carries;
  } else if (active.defined()) {
    operands.push_back(active);
  }
  const auto with_state = [&](auto record) {
    BatchedBody scope(b);
    if (!differs) {
      const Results inputs = inputs_in(scope);
      bodies.push_back(scope.take(record(b.batcher.among(scope.active(b.batcher)), inputs, Tensor())));
      return;
    }
    Results inputs;
    Tensor going;
    for (std::size_t i = 0; i <= flags.size(); ++i) {
      if (i == carries) going = scope.input(types.back(), true).value;
      if (i == flags.size()) break;
      const Type& one = type_of(body.inputs[i]);
      inputs.push_back(scope.input(flags[i] ? b.batcher.type(one) : one, flags[i]));
    }
    bodies.push_back(scope.take(record(b.batcher.among(going), inputs, going)));
  };
  with_state([&](const Batcher& among, const Results& inputs, const Tensor& going) -> std::vector<Tensor> {
    if (differs) return {any(going)};
    return values_of(among.run(condition, inputs));
  });
  with_state([&](const Batcher& among, const Results& inputs, const Tensor& going) {
    std::vector<Tensor> next;
    const Results found = among.run(body, inputs);
    Results state = inputs;
    for (std::size_t i = 0; i < carries; ++i) {
      state[i] = differs ? Batched{selected(among, going, found[i], inputs[i]), true} : found[i];
      next.push_back(flags[i] ? among.all(state[i]) : state[i].value);
    }
    if (differs) next.push_back(holds(among, state));
    return next;
  });
  return put(record_region(Op::while_loop, operands, loop, types, std::move(bodies), b.node.loc),
             Flags(flags.begin(), flags.begin() + place));
}

// Where examples differ in the predicate, both branches are computed for all of them.
std::vector<Batched> batch_cond(const BatchedNode& b) {
  const auto given = b.operands.subspan(1);
  if (b.differs(0)) {
    Tensor chosen = build.reshape(b.value(0), Shape::of(b.size())), others = ~chosen;
    const Tensor& active = b.batcher.active();
    const Batcher first = b.batcher.among(active.defined() ? chosen & active : chosen),
                  second = b.batcher.among(active.defined() ? others & active : others);
    const Results yes = first.run(*b.node.bodies()[0], given), no = second.run(*b.node.bodies()[1], given);
    Results results;
    for (std::size_t i = 0; i < yes.size(); ++i) results.push_back({selected(b.batcher, chosen, yes[i], no[i]), true});
    return results;
  }
  const Flags flags = flags_of(given);
  Flags outputs = differing(*b.node.bodies()[0], flags, b.batcher);
  const Flags others = differing(*b.node.bodies()[1], flags, b.batcher);
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = outputs[i] || others[i];
  std::vector<Tensor> operands = values_of(b.operands);
  if (b.batcher.active().defined()) operands.push_back(b.batcher.active());
  std::vector<Type> types;
  std::vector<std::shared_ptr<const Graph>> bodies;
  for (const auto& body : b.node.bodies()) {
    BatchedBody scope(b);
    Results inputs;
    for (const Batched& each : given) inputs.push_back(scope.input(type_of(each.value), each.differs));
    const Batcher inner = b.batcher.among(scope.active(b.batcher));
    const Results found = inner.run(*body, inputs);
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < found.size(); ++i) results.push_back(outputs[i] ? inner.all(found[i]) : found[i].value);
    types.clear();
    for (const Tensor& result : results) types.push_back(type_of(result));
    bodies.push_back(scope.take(std::move(results)));
  }
  return put(record_region(Op::cond, operands, {}, types, std::move(bodies), b.node.loc), outputs);
}

}  // namespace weft
