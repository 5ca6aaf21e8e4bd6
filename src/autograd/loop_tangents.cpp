#include <algorithm>
#include <optional>

#include "autograd/backward.hpp"
#include "autograd/dependence.hpp"
#include "autograd/forward.hpp"
#include "autograd/loops.hpp"
#include "autograd/zeros.hpp"
#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "ir/host_function.hpp"
#include "record/loops.hpp"

namespace weft {
namespace {

// The tangents' body computes what the body does again, and the program's code is called once.
void require_repeatable(const Graph& body, const char* what) {
  for (const Tensor& value : body.nodes)
    if (runs_once(*value.node()))
      fail("host_call", value.node()->loc, "gives a value, or is called in a loop or a choice, in the body of a ", what,
           " that is differentiated by jvp, which computes values again: call it outside of the ", what);
}

// A body that is recorded again, with the tangents of its results.
struct TangentBody {
  LoopBody scope;
  std::vector<Tensor> inputs, tangents;     // those of the body, and one for each input that varies
  std::vector<Tensor> results, directions;  // by output of the body: its value, and its tangent, undefined where zero

  // `varies`: which inputs have a tangent.
  TangentBody(const Graph& body, const Node& node, const std::vector<bool>& varies)
      : scope({node.loc, nullptr, node.scope}) {
    std::vector<Tensor> variables, seeds, effects;
    for (const Tensor& input : body.inputs) inputs.push_back(scope.input(type_of(input)));
    std::vector<Tensor> arguments = inputs;
    tangents.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!varies[i]) continue;
      seeds.push_back(tangents[i] = scope.input(type_of(inputs[i])));
      variables.push_back(arguments[i] = record(Op::variable, {inputs[i]}, {}, {}, node.loc));
    }
    results = apply_body(
        body, arguments, {node.loc, node.scope, scope.id()}, [](const Node&) { return false; }, effects);
    directions = variables.empty() ? std::vector<Tensor>(results.size())
                                   : push_forward(results, variables, seeds, "jvp", node.loc);
  }
  void close() {
    scope.close();
    WEFT_CHECK(scope.captured().empty() && scope.generators().empty(), "the tangents of a body capture");
  }
};

// Inputs that vary: those with a tangent, and the carries, which come first, that depend on such an input.
std::vector<bool> varying(const Graph& body, const Pushforward& p, std::size_t carries) {
  std::vector<bool> varies;
  for (const Tensor& tangent : p.tangents) varies.push_back(tangent.defined());
  const std::vector<std::vector<bool>> depends = dependences(body);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t k = 0; k < carries; ++k)
      for (std::size_t i = 0; i < varies.size() && !varies[k]; ++i)
        if (varies[i] && depends[k][i]) changed = varies[k] = true;
  }
  return varies;
}

// Operands of one kind, and their tangents after them: the same of inputs.
template <class Defined, class From>
void append(std::vector<Tensor>& to, const Defined& defined, const From& from, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (defined[i]) to.push_back(from(i));
}

}  // namespace

void differentiate_scan_forward(const Pushforward& p) {
  const Node& node = p.node();
  const Scan scan = node.attributes<Scan>();
  const Graph& body = *node.bodies()[0];
  require_repeatable(body, "loop");
  const auto carries = static_cast<std::size_t>(scan.carries),
             sources = carries + static_cast<std::size_t>(scan.scanned),
             all = static_cast<std::size_t>(node.operand_count);
  const std::vector<bool> varies = varying(body, p, carries), every(all, true);
  TangentBody with(body, node, varies);
  std::vector<Tensor> operands, inputs, outputs;
  const auto operand = [&](std::size_t i) { return node.input(i); };
  const auto tangent = [&](std::size_t i) {
    return p.tangents[i].defined() ? p.tangents[i] : zeros_of(node.input(i), node.loc);
  };
  const auto next_tangent = [&](std::size_t k) {
    return with.directions[k].defined() ? with.directions[k] : zeros_of(with.inputs[k], node.loc);
  };
  append(
      outputs, every, [&](std::size_t k) { return with.results[k]; }, 0, carries);
  append(outputs, varies, next_tangent, 0, carries);
  const std::size_t carried = outputs.size();
  for (std::size_t y = carries; y < with.directions.size(); ++y)
    if (with.directions[y].defined()) outputs.push_back(with.directions[y]);
  with.close();
  for (const auto& [begin, end] : {std::pair{std::size_t{0}, carries}, {carries, sources}, {sources, all}}) {
    append(operands, every, operand, begin, end);
    append(operands, varies, tangent, begin, end);
    append(
        inputs, every, [&](std::size_t i) { return with.inputs[i]; }, begin, end);
    append(
        inputs, varies, [&](std::size_t i) { return with.tangents[i]; }, begin, end);
  }
  const auto scanned =
      std::count(varies.begin() + scan.carries, varies.begin() + static_cast<std::ptrdiff_t>(sources), true);
  std::vector<Type> types;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    types.push_back(i < carried ? type_of(operands[i]) : stacked(type_of(outputs[i]), scan.length));
  if (outputs.empty()) return;
  const Scan attributes{static_cast<std::int64_t>(carried), scan.scanned + scanned, scan.length, scan.reverse};
  const std::vector<Tensor> results = results_of(record_region(
      Op::scan, operands, attributes, types, {with.scope.take(std::move(inputs), std::move(outputs))}, node.loc));
  std::size_t next = carries;
  for (std::size_t i = 0; i < p.results.size(); ++i)
    if (i < carries ? varies[i] : with.directions[i].defined()) p.results[i] = results[next++];
}

// Of the state, what varies; the condition sees values alone.
void differentiate_while_forward(const Pushforward& p) {
  const Node& node = p.node();
  While attributes = node.attributes<While>();
  for (const auto& body : node.bodies()) require_repeatable(*body, "loop");
  const auto carries = static_cast<std::size_t>(attributes.carries), all = static_cast<std::size_t>(node.operand_count);
  const std::vector<bool> varies = varying(*node.bodies()[1], p, carries), every(all, true);
  std::vector<Tensor> operands;
  std::vector<std::shared_ptr<const Graph>> bodies;
  std::vector<Type> types;
  for (const auto& [begin, end] : {std::pair{std::size_t{0}, carries}, {carries, all}}) {
    append(
        operands, every, [&](std::size_t i) { return node.input(i); }, begin, end);
    append(
        operands, varies,
        [&](std::size_t i) { return p.tangents[i].defined() ? p.tangents[i] : zeros_of(node.input(i), node.loc); },
        begin, end);
  }
  for (std::size_t b = 0; b < 2; ++b) {
    // The condition has inputs for the tangents too, which it does not read.
    TangentBody with(*node.bodies()[b], node, varies);
    std::vector<Tensor> inputs, outputs;
    append(
        outputs, every, [&](std::size_t k) { return with.results[k]; }, 0, b == 0 ? 1 : carries);
    if (b == 1)
      append(
          outputs, varies,
          [&](std::size_t k) {
            return with.directions[k].defined() ? with.directions[k] : zeros_of(with.inputs[k], node.loc);
          },
          0, carries);
    with.close();
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, carries}, {carries, all}}) {
      append(
          inputs, every, [&](std::size_t i) { return with.inputs[i]; }, begin, end);
      append(
          inputs, varies, [&](std::size_t i) { return with.tangents[i]; }, begin, end);
    }
    if (b == 1) attributes.carries = static_cast<std::int64_t>(outputs.size());
    bodies.push_back(with.scope.take(std::move(inputs), std::move(outputs)));
  }
  for (std::int64_t k = 0; k < attributes.carries; ++k) types.push_back(type_of(operands[static_cast<std::size_t>(k)]));
  const std::vector<Tensor> results =
      results_of(record_region(Op::while_loop, operands, attributes, types, std::move(bodies), node.loc));
  for (std::size_t k = 0, next = carries; k < carries; ++k)
    if (varies[k]) p.results[k] = results[next++];
}

void differentiate_cond_forward(const Pushforward& p) {
  const Node& node = p.node();
  std::vector<bool> varies;
  std::vector<Tensor> operands(node.inputs().begin(), node.inputs().end());
  for (std::size_t i = 1; i < p.tangents.size(); ++i) {  // operand 0 chooses
    varies.push_back(p.tangents[i].defined());
    if (varies.back()) operands.push_back(p.tangents[i]);
  }
  std::optional<TangentBody> with[2];
  for (std::size_t b = 0; b < 2; ++b) {
    require_repeatable(*node.bodies()[b], "choice");
    with[b].emplace(*node.bodies()[b], node, varies).close();
  }
  std::vector<std::shared_ptr<const Graph>> bodies;
  std::vector<Type> types;
  std::vector<bool> reached;
  for (std::size_t i = 0; i < p.results.size(); ++i) {
    reached.push_back(with[0]->directions[i].defined() || with[1]->directions[i].defined());
    Type type = type_of(Tensor(p.value.node(), static_cast<unsigned>(i)));
    type.weak = false;
    if (reached.back()) types.push_back(type);
  }
  if (types.empty()) return;
  for (std::optional<TangentBody>& each : with) {
    std::vector<Tensor> inputs = each->inputs, outputs;
    for (const Tensor& tangent : each->tangents)
      if (tangent.defined()) inputs.push_back(tangent);
    const Builder build(node.loc, node.scope, each->scope.id());
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (!reached[i]) continue;
      const Tensor& found = each->directions[i];
      const Type& type = types[outputs.size()];
      // Zeros where the other branch alone has a tangent.
      outputs.push_back(found.defined() ? found : build.constant(Constant::number(type.dtype, 0), type));
    }
    bodies.push_back(each->scope.take(std::move(inputs), std::move(outputs)));
  }
  const std::vector<Tensor> results =
      results_of(record_region(Op::cond, operands, {}, types, std::move(bodies), node.loc));
  for (std::size_t i = 0, next = 0; i < p.results.size(); ++i)
    if (reached[i]) p.results[i] = results[next++];
}

}  // namespace weft
