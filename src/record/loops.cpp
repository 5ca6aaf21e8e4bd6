#include "record/loops.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/dim_guards.hpp"
#include "base/fail.hpp"
#include "base/per_thread.hpp"
#include "ir/host_function.hpp"
#include "record/place_guard.hpp"
#include "record/record_body.hpp"

namespace weft {
namespace {

struct ExampleBodies {
  std::vector<std::uint32_t> open;
};

// By node of an input of the body: the value of the trace around it.
std::unordered_map<const Node*, Tensor> captured_by_input(const Trace& body) {
  std::unordered_map<const Node*, Tensor> captured;
  for (const Tensor& value : body.captured) captured.emplace(body.inputs_of_captured.at(value.word()).node(), value);
  return captured;
}

// What a value of a body is computed from there, in recording order. Nothing where it depends on an input of the body,
// or on what must not be done again.
std::optional<std::vector<const Node*>> nodes_without_inputs(const Tensor& value, const Trace& body) {
  const auto captured = captured_by_input(body);
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](const Tensor& each) {
    if (!captured.contains(each.node()) && seen.insert(each.node()).second) nodes.push_back(each.node());
  };
  visit(value);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    if (node.op == Op::input || is_effect(node) || runs_once(node)) return {};
    std::ranges::for_each(node.inputs(), visit);
  }
  std::ranges::sort(nodes, {}, &Node::sequence);
  return nodes;
}

// The value once more, in the trace around the body. A derivative that is open in the body has no variable there.
Tensor record_around(const Tensor& value, std::span<const Node* const> nodes, const Trace& body) {
  std::unordered_map<const Node*, Tensor> around = captured_by_input(body);
  const auto place = [&](const Tensor& each) {
    const Tensor& found = around.at(each.node());
    return each.output() == 0 ? found : Tensor(found.node(), each.output());
  };
  std::vector<Tensor> operands;
  for (const Node* const node : nodes) {
    operands.clear();
    for (const Tensor& operand : node->inputs()) operands.push_back(place(operand));
    const bool is_same = node->op == Op::variable || node->op == Op::stop_gradient;
    const PlaceGuard at;
    at.enter(*node);
    around.emplace(node, is_same ? operands[0] : record_node(*node, operands));
  }
  return place(value);
}

}  // namespace

bool is_example_body(std::uint32_t trace) { return std::ranges::count(per_thread<ExampleBodies>().open, trace) > 0; }

SharedByExamples::SharedByExamples(const Tensor& value) {
  Recorder& r = recorder();
  Trace* const body = r.trace();
  if (!body || !value.defined() || value.node()->trace == 0 || !is_example_body(body->id)) return;
  const bool is_inside = value.node()->trace == body->id;
  const auto nodes = is_inside ? nodes_without_inputs(value, *body) : std::vector<const Node*>();
  if (!nodes) return;
  body_ = body;
  r.traces.pop_back();
  dims::are_guarded() = !r.traces.empty();
  try {
    value_ = is_inside ? record_around(value, *nodes, *body) : value;
  } catch (...) {
    enter();
    throw;
  }
}
void SharedByExamples::enter() {
  if (!body_) return;
  recorder().traces.push_back(body_);
  dims::are_guarded() = true;
}

void refuse_held(const Graph& body, const char* operation, Loc loc, const char* advice) {
  std::vector<std::uint32_t> expected(body.nodes.size(), 1);
  const auto count = [&](const Tensor& value) { ++expected[body.number(value)]; };
  for (const Tensor& value : body.nodes) std::ranges::for_each(value.node()->inputs(), count);
  for (const auto* values : {&body.inputs, &body.outputs, &body.effects}) std::ranges::for_each(*values, count);
  for (const Tensor& value : body.nodes)
    if (const Node& node = *value.node(); node.references > expected[body.number(value)])
      fail(operation, loc, "the function leaves a tensor (", made_at(node),
           "), or one computed from it, in something that it captures, as a layer keeps its statistics: ", advice);
}

LoopBody::LoopBody(const BodyPlace& place, Loc call, Of of) : call_(call), of_(of) {
  DimEnvironment* const sizes = DimEnvironment::current();
  trace_.id = new_loop_id();
  trace_.is_loop = true;
  if (of_ == Of::example) per_thread<ExampleBodies>().open.push_back(trace_.id);
  inside_.emplace(trace_);
  recorder().loc = place.loc;
  recorder().scope = place.scope;
  DimEnvironment::current() = sizes;
  called_operation() = place.operation;
}

LoopBody::~LoopBody() {
  if (inside_) inside_.reset();
  if (of_ == Of::example) std::erase(per_thread<ExampleBodies>().open, trace_.id);
  for (auto drawn = trace_.generators.rbegin(); drawn != trace_.generators.rend(); ++drawn)
    *drawn->state = drawn->before;
}

Tensor LoopBody::input(const Type& type) { return Builder(call_, 0, trace_.id).input(0, type); }

void LoopBody::close() {
  inside_.reset();
  for (const Trace::GeneratorUse& drawn : trace_.generators) {
    generators_.push_back({drawn.state, drawn.before, drawn.input, *drawn.state});
    *drawn.state = drawn.before;
  }
  trace_.generators.clear();
  if (trace_.generator_input.defined())
    generators_.push_back({nullptr, {}, trace_.generator_input, trace_.generator_value});
  trace_.generator_input = trace_.generator_value = Tensor();
}

Tensor LoopBody::input_of(const Tensor& captured) const {
  const auto found = trace_.inputs_of_captured.find(captured.word());
  return found == trace_.inputs_of_captured.end() ? Tensor() : found->second;
}

void LoopBody::append_captured(std::vector<Tensor>& operands, std::vector<Tensor>& inputs) const {
  for (const Tensor& value : captured()) {
    operands.push_back(value);
    inputs.push_back(input_of(value));
  }
}

std::shared_ptr<const Graph> LoopBody::take(std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i].node()->attributes_ = Parameter{static_cast<std::int64_t>(i)};
  return std::make_shared<const Graph>(make_graph(std::move(inputs), std::move(outputs), std::move(trace_.effects)));
}

std::shared_ptr<const Graph> with_stacks_of_host(std::shared_ptr<const Graph> body, const Scan& scan,
                                                 std::vector<Type>& types) {
  if (!calls_host(*body)) return body;
  std::vector<Tensor> outputs = body->outputs;
  const auto carries = static_cast<std::ptrdiff_t>(scan.carries);
  for (const Tensor& value : body->nodes) {
    if (!runs_once(*value.node())) continue;
    for (const Tensor& result : results_of(value)) {
      if (type_of(result).shape.rank() == max_rank) continue;
      const auto same = [&](const Tensor& output) { return output.same(result); };
      if (std::any_of(outputs.begin() + carries, outputs.end(), same)) continue;
      outputs.push_back(result);
      types.push_back(stacked(type_of(result), scan.length));
    }
  }
  if (outputs.size() == body->outputs.size()) return body;
  return std::make_shared<const Graph>(make_graph(body->inputs, std::move(outputs), body->effects));
}

Type stacked(Type type, Dim length) {
  Shape shape = Shape::of(length);
  for (const Dim size : type.shape) shape.push_back(size);
  type.shape = shape;
  type.weak = false;
  return type;
}
Type slice_of(Type type) {
  Shape shape;
  for (int i = 1; i < type.shape.rank(); ++i) shape.push_back(type.shape[i]);
  type.shape = shape;
  return type;
}

}  // namespace weft
