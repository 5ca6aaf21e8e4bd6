#include "eager/device.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/fail.hpp"
#include "base/failed_checks.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/per_thread.hpp"
#include "eager/sizes.hpp"
#include "ir/builder.hpp"
#include "ir/callee.hpp"
#include "ir/collective.hpp"
#include "ir/offload_mark.hpp"
#include "pipeline.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/watch.hpp"

namespace weft::eager {
namespace {

struct Coming {
  std::span<Node* const> nodes;
};

// An input for each operand; the caller adds the node over them.
std::vector<Tensor> inputs_for(std::span<const Type> operands, Loc loc) {
  std::vector<Tensor> inputs;
  const Builder build(loc, 0, 0);
  for (const Type& type : operands) inputs.push_back(build.input(inputs.size(), type));
  return inputs;
}
std::vector<Type> types_of(std::span<const Value> values) {
  std::vector<Type> types;
  for (const Value& value : values) types.push_back(value.type);
  return types;
}

Graph graph_of(std::vector<Tensor> inputs, const Tensor& node, std::size_t outputs) {
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < outputs; ++i) results.emplace_back(node.node(), static_cast<unsigned>(i));
  return make_graph(std::move(inputs), std::move(results), {});
}
Graph graph_of(Op op, const Attributes& attributes, const Type& type, std::span<const Type> operands, Loc loc) {
  std::vector<Tensor> inputs = inputs_for(operands, loc);
  const Tensor node = Builder(loc, 0, 0).make(op, inputs, attributes, type);
  if (info(op).kind == OpKind::effect) return make_graph(std::move(inputs), {}, {node});
  return graph_of(std::move(inputs), node, 1);
}

// Operations whose generated code is nearly the same for all sizes, which are arguments of the kernel.
bool is_general(Op op) {
  switch (info(op).kind) {
    case OpKind::pointwise:
    case OpKind::cast:
    case OpKind::random:
    case OpKind::reduce: return true;
    default: return op == Op::expand;
  }
}

// The number of sizes for which an operation gets executables of their own. All further sizes share one. The code of
// general operations is mostly the same for all sizes, so the cache has it.
int most_sizes(Op op) { return is_general(op) ? 16 : 4; }

// Graphs of one text may differ in sizes that no node names, and in what was decided of sizes.
std::string key_of(const Graph& graph) {
  std::string key = structure_text(graph) + concat_text(graph.symbols.size(), " sizes");
  for (const DimCondition& condition : graph.conditions)
    key += concat_text("; ", dims::to_string(condition.left),
                       condition.kind == DimCondition::Kind::equal ? " == " : " < ", dims::to_string(condition.right),
                       condition.holds ? "" : " is false");
  return key;
}

// Executables by the structure of their graph. Emptied when full: the disk cache still has those in use.
class Table {
 public:
  // The executable of one operation, for its sizes alone or for all sizes, and the values of the executable's symbols
  // in this call.
  struct Found {
    std::shared_ptr<const Executable> executable;
    std::vector<std::int64_t> symbols = {};
  };
  Found find_or_compile(Op op, const Attributes& attributes, const Type& type, std::span<const Type> operands,
                        Loc loc) {
    Asked own = ask(op, attributes, type, operands, loc), general;
    if (auto found = find(own.key)) return {std::move(found), std::move(own.graph.symbols)};
    if (is_generated(op)) {
      general = ask_for_all_sizes(op, attributes, type, operands, loc);
      if (general.is_wanted) try {
          auto executable = find_or_compile(std::move(general.graph.graph), general.key, type.device);
          if (runtime::fits(executable->plan, general.graph.symbols))
            return {std::move(executable), std::move(general.graph.symbols)};
        } catch (const OutOfMemory&) {  // another call tries it again
        } catch (const Error&) {        // for the sizes of each call alone it is compiled below, or refused
          const std::lock_guard lock(process_mutex(LockOrder::device_kernels));
          sizes_[general.key] = never;
        }
    }
    return {find_or_compile(std::move(own.graph.graph), own.key, type.device), std::move(own.graph.symbols)};
  }
  std::shared_ptr<const Executable> find_or_compile(Graph graph, Device device) {
    const std::string key = key_of(graph);
    return find_or_compile(std::move(graph), key, device);
  }
  std::int64_t compiled() const {
    const std::lock_guard lock(process_mutex(LockOrder::device_kernels));
    return compiled_;
  }

  static Table& instance() {
    static constinit Lazy<Table> table;
    return table.get();
  }

 private:
  struct Asked {
    GeneralGraph graph;
    std::string key;
    bool is_wanted = true;
  };
  Asked ask(Op op, const Attributes& attributes, const Type& type, std::span<const Type> operands, Loc loc) {
    Asked asked;
    if (op == Op::slice)
      asked.graph = general_graph(op, attributes, type, operands, Symbolic::starts, loc);
    else
      asked.graph.graph = graph_of(op, attributes, type, operands, loc);
    asked.key = key_of(asked.graph.graph);
    return asked;
  }
  // `is_wanted` once the operation was asked for with many sizes.
  Asked ask_for_all_sizes(Op op, const Attributes& attributes, const Type& type, std::span<const Type> operands,
                          Loc loc) {
    Asked asked{general_graph(op, attributes, type, operands, Symbolic::starts_and_sizes, loc), {}};
    asked.key = key_of(asked.graph.graph);
    const std::lock_guard lock(process_mutex(LockOrder::device_kernels));
    if (sizes_.size() >= capacity) sizes_.clear();
    int& count = sizes_[asked.key];
    if (count == never) {
      asked.is_wanted = false;
      return asked;
    }
    asked.is_wanted = ++count > most_sizes(op) && conditions_hold(asked.graph.graph, asked.graph.symbols);
    return asked;
  }

  std::shared_ptr<const Executable> find_or_compile(Graph graph, const std::string& key, Device device) {
    if (auto found = find(key)) return found;
    std::vector<Graph> graphs;
    std::vector<std::string> keys{key};
    graphs.push_back(graph);
    add_coming(graphs, keys, device);
    if (graphs.size() > 1) try {
        return add(keys, compile_graphs(std::move(graphs), {.apart = true}));
      } catch (const Error&) {  // of one of them: its turn says which
      }
    return add(std::span(&key, 1), {compile_graph(std::move(graph), {})});
  }
  // Adds one of the coming nodes for each primitive and dtypes: further ones mostly have the same code.
  void add_coming(std::vector<Graph>& graphs, std::vector<std::string>& keys, Device device) {
    std::set<std::string> seen;
    for (const Node* const node : coming_nodes()) {
      if (!node || node->storage || node->type.device != device || !is_general(node->op)) continue;
      std::vector<Type> operands;
      std::string what = concat_text(info(node->op).name, " ", static_cast<int>(node->type.dtype));
      for (unsigned i = 0; i < node->operand_count; ++i) {
        operands.push_back(type_of(node->input(i)));
        what += concat_text(" ", static_cast<int>(operands.back().dtype),
                            operands.back().shape.rank() == 0 ? " number" : "");
      }
      if (!seen.insert(what).second) continue;
      Asked asked = ask(node->op, node->attributes(), node->type, operands, node->loc);
      if (find(asked.key)) continue;
      if (Asked general = ask_for_all_sizes(node->op, node->attributes(), node->type, operands, node->loc);
          general.is_wanted)
        asked = std::move(general);
      if (std::ranges::find(keys, asked.key) != keys.end() || find(asked.key)) continue;
      keys.push_back(std::move(asked.key));
      graphs.push_back(std::move(asked.graph.graph));
    }
  }

  std::shared_ptr<const Executable> find(const std::string& key) {
    const std::lock_guard lock(process_mutex(LockOrder::device_kernels));
    const auto found = executables_.find(key);
    return found == executables_.end() ? nullptr : found->second;
  }
  // If two threads compile the same operation, the first result is kept. Returns the executable of keys[0].
  std::shared_ptr<const Executable> add(std::span<const std::string> keys,
                                        const std::vector<std::shared_ptr<const Executable>>& made) {
    const std::lock_guard lock(process_mutex(LockOrder::device_kernels));
    if (executables_.size() + keys.size() > capacity) executables_.clear();
    compiled_ += static_cast<std::int64_t>(keys.size());
    for (std::size_t i = keys.size(); i-- > 1;) executables_.try_emplace(keys[i], made[i]);
    return executables_.try_emplace(keys[0], made[0]).first->second;
  }

  static constexpr std::size_t capacity = 4096;
  static constexpr int never = -1;  // a count of sizes: the graph for all sizes can't be compiled
  std::map<std::string, std::shared_ptr<const Executable>> executables_;
  std::map<std::string, int> sizes_;  // by the graph for all sizes
  std::int64_t compiled_ = 0;
};

// The memory of a result: an operand's, which nothing else reads and the plan lets it take, or fresh memory.
Value memory_for(std::size_t result, const Type& type, const runtime::Plan& plan, std::span<const Value> operands) {
  for (const runtime::Plan::Donation& donation : plan.donations) {
    const Value& given = operands[static_cast<std::size_t>(donation.argument)];
    if (static_cast<std::size_t>(donation.result) != result || given.type.device != type.device ||
        given.type.dtype != type.dtype || given.layout.offset != 0 || !unique(given.storage))
      continue;
    Value taken = given;
    taken.type = type;
    return taken;
  }
  return make_value(type);
}

// `lends`: operands to which this is the only reference are not needed afterwards.
std::vector<Value> run(const Table::Found& found, std::span<const Type> types, std::span<const Value> operands,
                       bool lends = false) {
  const std::shared_ptr<const Executable>& executable = found.executable;
  std::vector<Value> contiguous, results;
  for (std::size_t i = 0; i < types.size(); ++i)
    results.push_back(lends ? memory_for(i, types[i], executable->plan, operands) : make_value(types[i]));
  std::vector<void*> arguments, pointers;
  std::vector<Storage*> blocks;
  std::size_t read = 0;  // of the blocks, those that are arguments
  for (const Value& operand : operands) {
    contiguous.push_back(operand.type.device.type == Device::Type::cpu ? make_contiguous(operand) : operand);
    WEFT_CHECK(contiguous.back().contiguous(), "a strided value on a device");
    arguments.push_back(contiguous.back().data());
  }
  for (const Value& result : results) pointers.push_back(result.data());
  for (const auto* values : {&contiguous, &results}) {
    read = blocks.size();
    for (const Value& value : *values)
      if (value.storage->device == executable->plan.device) blocks.push_back(value.storage);
  }
  note_device_call(std::span(blocks).first(read), std::span(blocks).subspan(read));
  if (runtime::current_watch) [[unlikely]]
    runtime::current_watch->eager_operation(executable->plan.device);
  const runtime::Watching unwatched(nullptr);  // its steps are not those of the compiled function that asks for it
  runtime::run(executable->plan, arguments, pointers, found.symbols, nullptr, blocks);
  return results;
}
std::vector<Value> run(Graph graph, std::span<const Type> types, std::span<const Value> operands) {
  const Device device = types.empty() ? operands[0].type.device : types[0].device;
  return run(Table::Found{Table::instance().find_or_compile(std::move(graph), device)}, types, operands);
}

// One kernel for all numbers of a dtype and shape: the number comes from the host.
Value fill(const Attributes& attributes, const Type& type, Loc loc) {
  Type number = type, element = type;
  number.shape = element.shape = {};
  number.device = Device::cpu();
  const Value one = execute(Op::constant, attributes, number, {}, loc);
  if (type.shape.rank() == 0) return execute_transfer(type, one);
  const Value moved = execute_transfer(element, one);
  return run(Table::instance().find_or_compile(Op::expand, {}, type, std::span(&moved.type, 1), loc),
             std::span(&type, 1), std::span(&moved, 1))[0];
}

// The text of an error without its "[operation] ", to be part of another one.
std::string_view without_operation(std::string_view text) {
  const std::size_t end = text.find("] ");
  return text.starts_with('[') && end != text.npos ? text.substr(end + 2) : text;
}

}  // namespace

std::span<Node* const>& coming_nodes() { return per_thread<Coming>().nodes; }
std::int64_t compiled_operations() { return Table::instance().compiled(); }

void require_device(Device device, const char* operation, Loc loc) {
  if (device.type == Device::Type::cpu) return;
  try {
    runtime::cuda::use(device);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    fail(operation, loc, "cuda:", static_cast<int>(device.index), " can't be used: ", without_operation(error.what()));
  }
}

Value execute_on_device(Op op, const Attributes& attributes, const Type& type, std::span<const Value> operands,
                        Loc loc) {
  require_device(type.device, info(op).name, loc);
  const OpKind kind = info(op).kind;
  const bool alone = kind == OpKind::collective && collective_of(op, attributes, type.dtype).processes == 1;
  if (kind == OpKind::identity || alone || op == Op::reshape) {
    Value result = operands[0];
    result.type = type;
    result.sizes = sizes_of(type);
    result.layout = contiguous_layout(result.sizes);
    return result;
  }
  if (op == Op::constant) return fill(attributes, type, loc);
  const std::vector<Type> types = types_of(operands);
  if (kind == OpKind::effect) {  // its token holds what was checked
    run(graph_of(op, attributes, type, types, loc), {}, operands);
    return operands[0];
  }
  const bool updates = op == Op::update_rows || op == Op::update_slice;
  return run(Table::instance().find_or_compile(op, attributes, type, types, loc), std::span(&type, 1), operands,
             updates)[0];
}

std::vector<Value> execute_call_on_device(const Node& node, std::span<const Type> types,
                                          std::span<const Value> operands, std::span<const std::int64_t> symbols) {
  require_device(types[0].device, info(node.op).name, node.loc);
  std::vector<Tensor> inputs = inputs_for(types_of(operands), node.loc);
  const Tensor call = symbols.empty() ? Builder::copy(node, inputs) : copy_with_sizes(node, inputs, symbols);
  call.node()->region = region_of(*call.node());  // nothing is read much later here
  return run(graph_of(std::move(inputs), call, types.size()), types, operands);
}

Value execute_transfer(const Type& type, const Value& operand) {
  const Device from = operand.type.device;
  require_device(type.device, "to", {});
  Value source = from.type == Device::Type::cpu ? make_contiguous(operand) : operand;
  if (from == type.device) {
    source.type = type;
    return source;
  }
  Value result = make_value(type);
  const Value& queued = type.device.type == Device::Type::cpu ? source : result;
  const DeviceInterface& memory = device_interface(queued.type.device.type);
  memory.copy(result.data(), type.device, source.data(), from, storage_bytes(type.dtype, source.sizes.count()),
              queued.storage->queue);
  if (from.type == Device::Type::cuda) {
    memory.synchronize(from);
    require_good(*source.storage);
  }
  return result;
}

}  // namespace weft::eager
