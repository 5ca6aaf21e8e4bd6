#include "record/run_graph.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/named_sizes.hpp"
#include "eager/device.hpp"
#include "eager/program.hpp"
#include "ir/host_function.hpp"
#include "record/evaluate.hpp"
#include "record/host_call.hpp"
#include "record/loops.hpp"

namespace weft {

using eager::Value;

bool has_several_results(Op op) {
  return info(op).kind == OpKind::region || info(op).kind == OpKind::factorization || op == Op::host_call;
}
std::vector<Type> types_of(const Node& node) {
  std::vector<Type> types{node.type};
  types.insert(types.end(), node.more_types().begin(), node.more_types().end());
  return types;
}

namespace {

struct Run {
  const Graph& graph;
  std::span<const Value> inputs;
  std::span<const std::int64_t> symbols;
  struct Slot {
    Value first;
    std::vector<Value> more;
  };
  std::vector<Slot> slots = {};
  std::vector<std::size_t> last_use = {};  // by node, of a graph that is run again and again as well
  // By node: it depends on no input that a next run changes, and keeps its value.
  std::vector<bool> fixed = {};
  bool again = false;  // what is fixed has its value
  // By node, where a loop of the graph extends another one (Node::More::extends): the loop that runs in its place,
  // which then has its value before its turn. Else empty.
  std::vector<std::uint32_t> run_by = {};
  std::vector<bool> has_run = {};
  const WatchNode* watch = nullptr;

  // Before the first of several runs: inputs from this one on are the same for all of them.
  void fix_inputs_from(std::size_t first) {
    fixed.resize(graph.nodes.size());
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      const Node& node = *graph.nodes[i].node();
      fixed[i] = node.op != Op::input || static_cast<std::size_t>(node.attributes<Parameter>().slot) >= first;
      for (const Tensor& operand : node.inputs()) fixed[i] = fixed[i] && fixed[graph.number(operand)];
      fixed[i] = fixed[i] && !is_effect(node);
    }
  }

  const Value& at(const Tensor& value) const {
    const Slot& slot = slots[graph.number(value)];
    return value.output() == 0 ? slot.first : slot.more[value.output() - 1];
  }
  Dim number(Dim dim) const { return dim.is_constant() ? dim : Dim(dims::evaluate(dim, symbols)); }
  Type concrete(Type type) const {
    for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape[axis] = number(type.shape[axis]);
    return type;
  }

  void execute(const Node& node, std::vector<Value>& operands) {
    Slot& slot = slots[graph.number(node)];
    if (node.op == Op::input) {
      auto place = static_cast<std::size_t>(node.attributes<Parameter>().slot);
      WEFT_CHECK(place < inputs.size(), "input ", place, " of ", inputs.size());
      slot.first = inputs[place];
    } else if (computed(&node)) {
      slot.first = value_of(Tensor(const_cast<Node*>(&node)));
    } else if (has_several_results(node.op)) {
      std::vector<Type> types = types_of(node);
      for (Type& type : types) type = concrete(type);
      std::vector<Value> results = execute_region(node, types, operands, symbols);
      slot.first = std::move(results[0]);
      slot.more.assign(std::make_move_iterator(results.begin() + 1), std::make_move_iterator(results.end()));
    } else {
      if (symbols.empty()) {
        slot.first = eager::execute(node.op, node.attributes(), node.type, operands, node.loc);
        return;
      }
      const Attributes attributes = node.attributes().with_sizes([this](Dim dim) { return number(dim); });
      slot.first = eager::execute(node.op, attributes, concrete(node.type), operands, node.loc);
    }
  }

  std::vector<Value> run() {
    const std::size_t count = graph.nodes.size();
    if (!again) find_last_uses();
    has_run.assign(run_by.size(), false);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < count; ++i) {
      if (again && fixed[i]) continue;
      const Node& node = *graph.nodes[i].node();
      if (!run_by.empty() && (has_run[i] || run_by[i] != i)) {
        if (!has_run[i]) run_longer(i);
        if (watch) show(node);
        free_after(i);
        continue;
      }
      operands.clear();
      // The last reader of a value takes it out of its slot: a value is hundreds of bytes.
      for (std::size_t k = 0; k < node.operand_count; ++k) {
        const Node* from = node.input(k).node();
        const auto reads = [&](const Tensor& later) { return later.node() == from; };
        const std::uint32_t number = graph.number(*from);
        const bool last = last_use[number] == i && slots[number].more.empty() &&
                          std::ranges::none_of(node.inputs().subspan(k + 1), reads);
        if (last)
          operands.push_back(std::move(slots[number].first));
        else
          operands.push_back(at(node.input(k)));
      }
      execute(node, operands);
      if (watch) show(node);
      operands.clear();
      free_after(i);
    }
    std::vector<Value> results;
    for (const Tensor& output : graph.outputs) results.push_back(at(output));
    again = !fixed.empty();
    if (!again) return results;
    for (const Tensor& output : graph.outputs)
      if (const std::uint32_t number = graph.number(output); !fixed[number]) slots[number] = {};
    return results;
  }

  void free_after(std::size_t i) {
    for (const Tensor& operand : graph.nodes[i].node()->inputs())
      if (const std::uint32_t number = graph.number(operand); last_use[number] == i && slots[number].first.storage)
        slots[number] = {};
  }

  // Runs the loop that runs in the place of this one, and gives its results to those that it extends.
  void run_longer(std::size_t loop) {
    const std::uint32_t last = run_by[loop];
    const Node& longer = *graph.nodes[last].node();
    std::vector<Value> operands;
    for (const Tensor& operand : longer.inputs()) operands.push_back(at(operand));
    execute(longer, operands);
    for (std::size_t i = loop; i <= last; ++i) {
      if (run_by[i] != last) continue;
      has_run[i] = true;
      if (i == last) continue;
      slots[i].first = slots[last].first;
      slots[i].more.assign(slots[last].more.begin(),
                           slots[last].more.begin() + (graph.nodes[i].node()->output_count - 1));
    }
  }

  void show(const Node& node) const {
    const Slot& slot = slots[graph.number(node)];
    std::vector<Tensor> results{tensor_of(slot.first, node.loc)};
    for (const Value& value : slot.more) results.push_back(tensor_of(value, node.loc));
    (*watch)(node, results);
  }

  void find_last_uses() {
    const std::size_t count = graph.nodes.size();
    slots.resize(count);
    last_use.resize(count, 0);
    find_longer_loops();
    std::vector<std::size_t> runs_at(count);
    for (std::size_t i = count; i-- > 0;) {
      runs_at[i] = i;
      if (!run_by.empty()) runs_at[run_by[i]] = i;
    }
    for (std::size_t i = 0; i < count; ++i)
      for (const Tensor& operand : graph.nodes[i].node()->inputs()) {
        std::size_t& last = last_use[graph.number(operand)];
        last = std::max(last, runs_at[i]);
      }
    for (std::size_t i = 0; i < fixed.size(); ++i)
      if (fixed[i]) last_use[i] = count;
    for (const Tensor& output : graph.outputs) last_use[graph.number(output)] = count;
  }

  // A loop that calls the program's code runs itself: the longer one does not call it.
  void find_longer_loops() {
    const auto extends = [](const Node& longer, const Node& loop) {
      return loop.more && !loop.bodies().empty() && longer.more->extends == loop.bodies()[0] &&
             longer.attributes() == loop.attributes() &&
             std::ranges::equal(longer.inputs(), loop.inputs(),
                                [](const Tensor& a, const Tensor& b) { return a.same(b); }) &&
             !calls_host(*loop.bodies()[0]);
    };
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = *graph.nodes[i].node();
      if (!node.more || !node.more->extends) continue;
      for (std::uint32_t loop = 0; loop < i; ++loop) {
        if (!extends(node, *graph.nodes[loop].node())) continue;
        if (run_by.empty())
          for (std::uint32_t each = 0; each < graph.nodes.size(); ++each) run_by.push_back(each);
        if (run_by[loop] == loop) std::ranges::replace(run_by, loop, i);
        break;
      }
    }
  }
};

std::shared_ptr<const eager::Program> program_of(const Callee& callee) {
  std::unique_lock lock(process_mutex(LockOrder::callees));
  if (callee.lowered) return callee.program;
  lock.unlock();
  std::shared_ptr<const eager::Program> made = eager::Program::lower(callee.body);
  lock.lock();
  if (!std::exchange(callee.lowered, true)) callee.program = std::move(made);
  return callee.program;
}

// Slice t along axis 0.
Value slice_at(const Value& value, std::int64_t t) {
  Value slice = value;
  slice.type = slice_of(value.type);
  slice.sizes = eager::sizes_of(slice.type);
  slice.layout.offset += t * value.layout.strides[0];
  for (int axis = 0; axis < slice.sizes.rank; ++axis) slice.layout.strides[axis] = value.layout.strides[axis + 1];
  return slice;
}

std::vector<Value> execute_scan(const Node& node, std::span<const Type> types, std::span<const Value> operands,
                                std::span<const std::int64_t> symbols) {
  const auto& scan = node.attributes<Scan>();
  const auto carries = static_cast<std::size_t>(scan.carries), scanned = static_cast<std::size_t>(scan.scanned);
  const std::int64_t length = dims::evaluate(scan.length, symbols);
  std::vector<Value> inputs(operands.begin(), operands.end()),
      results(operands.begin(), operands.begin() + scan.carries);
  for (std::size_t i = carries; i < types.size(); ++i) results.push_back(eager::make_value(types[i]));
  Run body{*node.bodies()[0], inputs, symbols};
  body.fix_inputs_from(carries + scanned);
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = scan.reverse ? length - 1 - i : i;
    for (std::size_t k = 0; k < scanned; ++k) inputs[carries + k] = slice_at(operands[carries + k], t);
    std::vector<Value> given = body.run();
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (k < carries) {
        results[k] = inputs[k] = std::move(given[k]);
        continue;
      }
      const Value place = slice_at(results[k], t);
      eager::copy_elements(place.sizes, place.element_bytes(), place.storage->data, place.layout,
                           given[k].storage->data, given[k].layout);
    }
  }
  return results;
}

std::vector<Value> execute_while(const Node& node, std::span<const Value> operands,
                                 std::span<const std::int64_t> symbols) {
  const auto& loop = node.attributes<While>();
  std::vector<Value> values(operands.begin(), operands.end());
  Run condition{*node.bodies()[0], values, symbols}, body{*node.bodies()[1], values, symbols};
  for (Run* each : {&condition, &body}) each->fix_inputs_from(static_cast<std::size_t>(loop.carries));
  for (std::int64_t i = 0;; ++i) {
    if (!*condition.run()[0].as<bool>()) break;
    if (loop.limit > 0 && i == loop.limit) throw_error("", {}, interned_text(loop.passed.id));
    std::vector<Value> next = body.run();
    std::move(next.begin(), next.end(), values.begin());
  }
  values.resize(static_cast<std::size_t>(loop.carries));
  return values;
}

}  // namespace

std::vector<Value> execute_host_call(const Node& node, std::span<const Type> types, std::span<const Value> operands) {
  std::vector<Value> on_host, results;
  Type type;
  for (const Value& operand : operands) {
    type = operand.type;
    type.device = Device::cpu();
    on_host.push_back(eager::make_contiguous(eager::execute(Op::transfer, {}, type, std::span(&operand, 1), node.loc)));
  }
  for (const Type& result : types) {
    type = result;
    type.device = Device::cpu();
    results.push_back(eager::make_value(type));
  }
  const auto listed = [](std::vector<Value>& values) {
    std::vector<HostValue> all;
    for (Value& value : values)
      all.push_back({value.type.dtype, {value.sizes.size, static_cast<std::size_t>(value.sizes.rank)}, value.data()});
    return all;
  };
  call_host_function(node.attributes<HostCalled>(), listed(on_host), listed(results), node.loc);
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = eager::execute(Op::transfer, {}, types[i], std::span(&results[i], 1), node.loc);
  return results;
}

std::vector<Value> execute_region(const Node& node, std::span<const Type> types, std::span<const Value> operands,
                                  std::span<const std::int64_t> symbols) {
  if (node.definition) return eager::execute_elementwise(*node.definition, types, operands);
  const bool on_device = types[0].device.type != Device::Type::cpu;
  if (node.op == Op::host_call) return execute_host_call(node, types, operands);
  if (on_device) return eager::execute_call_on_device(node, types, operands, symbols);
  if (info(node.op).kind == OpKind::factorization) {
    if (symbols.empty()) return eager::execute_factorization(node.op, node.attributes(), types, operands);
    const auto number = [symbols](Dim dim) { return dim.is_constant() ? dim : Dim(dims::evaluate(dim, symbols)); };
    return eager::execute_factorization(node.op, node.attributes().with_sizes(number), types, operands);
  }
  if (is_loop(node.op)) {
    if (node.op == Op::scan) return execute_scan(node, types, operands, symbols);
    if (node.op == Op::while_loop) return execute_while(node, operands, symbols);
    return Run{*node.bodies()[*operands[0].as<bool>() ? 0 : 1], operands.subspan(1), symbols}.run();
  }
  if (const Callee* callee = node.callee())
    if (const auto program = program_of(*callee)) return program->run(operands);
  return Run{*node.bodies()[0], operands, symbols}.run();
}

std::vector<Tensor> run_eagerly(const Graph& graph, std::span<const Tensor> inputs,
                                std::span<const std::int64_t> symbols, Loc loc, const WatchNode* watch) {
  evaluate(inputs, loc);
  std::vector<Value> values;
  for (const Tensor& input : inputs) values.push_back(value_of(input));
  std::vector<Tensor> results;
  Run run{graph, values, symbols};
  run.watch = watch;
  try {
    for (Value& value : run.run()) results.push_back(tensor_of(std::move(value), loc));
  } catch (const Error& error) {
    const auto on_device = [](const Value& value) { return value.type.device.type != Device::Type::cpu; };
    if (std::ranges::any_of(values, on_device)) throw;  // perhaps of an earlier call
    rethrow_with_sizes(error, symbols);
  }
  return results;
}

}  // namespace weft
