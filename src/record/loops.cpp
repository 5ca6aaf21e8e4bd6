#include "record/loops.hpp"

#include <algorithm>

#include "base/per_thread.hpp"
#include "ir/host_function.hpp"

namespace weft {
namespace {

struct ExampleBodies {
  std::vector<std::uint32_t> open;
};

}  // namespace

bool is_example_body(std::uint32_t trace) { return std::ranges::count(per_thread<ExampleBodies>().open, trace) > 0; }

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
