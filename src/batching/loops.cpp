// The batches of loops and choices, and the loop that does a node for one example after the other.
#include <algorithm>

#include "base/fail.hpp"
#include "batching/batched_body.hpp"

namespace weft {
namespace {

constexpr RecordingBuilder build;
using Results = std::vector<Batched>;
using Flags = std::vector<bool>;

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

// `chosen`, a bool [size], chooses between values of all examples.
Tensor selected(const Batcher& batcher, const Tensor& chosen, const Batched& a, const Batched& b) {
  const Tensor first = batcher.all(a), second = batcher.all(b);
  return build.make(Op::where, {batcher.spread(chosen, type_of(first).shape), first, second});
}

Tensor swapped(const Tensor& value) {  // axes 0 and 1
  AxisList axes;
  for (int i = 0; i < type_of(value).shape.rank(); ++i) axes.push_back(static_cast<std::uint8_t>(i < 2 ? 1 - i : i));
  return build.permute(value, axes);
}

}  // namespace

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
  return batched_results(
      record_region(Op::scan, operands, Scan{0, scanned, b.size(), false}, types, std::move(bodies), b.node.loc),
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
    scope.append_inputs(inputs, body, flags, b.batcher, 0, flags.size());
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
  Results made =
      batched_results(record_region(Op::scan, operands, scan, types, {std::move(batch)}, b.node.loc), outputs);
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
    Results inputs;
    scope.append_inputs(inputs, body, flags, b.batcher, 0, carries);
    const Tensor going = differs ? scope.input(types.back(), true).value : Tensor();
    scope.append_inputs(inputs, body, flags, b.batcher, carries, flags.size());
    const Batcher inner = b.batcher.among(differs ? going : scope.active(b.batcher));
    bodies.push_back(scope.take(record(inner, inputs, going)));
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
  return batched_results(record_region(Op::while_loop, operands, loop, types, std::move(bodies), b.node.loc),
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
  return batched_results(record_region(Op::cond, operands, {}, types, std::move(bodies), b.node.loc), outputs);
}

}  // namespace weft
