#include "record/evaluate.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/fork.hpp"
#include "base/hash.hpp"
#include "base/lazy.hpp"
#include "eager/device.hpp"
#include "eager/program.hpp"
#include "record/loops.hpp"
#include "record/row_gradients.hpp"

namespace weft {
namespace {

using eager::Value;

// A value's memory appears at once, with its layout: other threads may be looking.
Storage* computed(const Node* node) { return __atomic_load_n(&node->storage, __ATOMIC_ACQUIRE); }

Value value_of(const Tensor& tensor) {
  const Node* node = tensor.node();
  Storage* storage = storage_of(tensor);
  WEFT_CHECK(storage, name_of(*node), " has not been computed");
  retain(storage);
  const Layout* layout = layout_of(tensor);
  const Type& type = type_of(tensor);
  return Value(type, storage, layout ? *layout : eager::contiguous_layout(eager::sizes_of(type)));
}

bool plain(const Value& value) { return value.layout.offset == 0 && value.contiguous(); }

void set_computed(Node* node, Value value) {
  if (!plain(value)) node->layout = new Layout(value.layout);
  __atomic_store_n(&node->pending, 0u, __ATOMIC_RELAXED);
  __atomic_store_n(&node->storage, std::exchange(value.storage, nullptr), __ATOMIC_RELEASE);
}

// Outputs beyond the first have no layout of their own.
Value made_plain(const Value& value) {
  if (plain(value)) return value;
  Value result = eager::make_value(value.type);
  eager::copy_elements(value.sizes, value.element_bytes(), result.storage->data, result.layout, value.storage->data,
                       value.layout);
  return result;
}

// The results of a region or a factorization.
bool has_several_results(Op op) { return info(op).kind == OpKind::region || info(op).kind == OpKind::factorization; }
std::vector<Value> execute_region(const Node& node, std::span<const Type> types, std::span<const Value> operands,
                                  std::span<const std::int64_t> symbols);
std::vector<Type> types_of(const Node& node) {
  std::vector<Type> types{node.type};
  types.insert(types.end(), node.more_types().begin(), node.more_types().end());
  return types;
}

Tensor tensor_of(Value value, Loc loc) {
  const Layout layout = value.layout;
  const bool strided = !plain(value);
  Tensor tensor = make_data(std::exchange(value.storage, nullptr), value.type, loc);
  if (strided) tensor.node()->layout = new Layout(layout);
  return tensor;
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

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
  const WatchNode* watch = nullptr;

  // Before the first of several runs: inputs from this one on are the same for all of them.
  void fix_inputs_from(std::size_t first) {
    fixed.resize(graph.nodes.size());
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      const Node& node = *graph.nodes[i].node();
      fixed[i] = node.op != Op::input || static_cast<std::size_t>(node.attributes<Parameter>().slot) >= first;
      for (const Tensor& operand : node.inputs()) fixed[i] = fixed[i] && fixed[graph.number(operand)];
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
    std::vector<Value> operands;
    for (std::size_t i = 0; i < count; ++i) {
      if (again && fixed[i]) continue;
      const Node& node = *graph.nodes[i].node();
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
      for (const Tensor& operand : node.inputs())
        if (const std::uint32_t number = graph.number(operand); last_use[number] == i && slots[number].first.storage)
          slots[number] = {};
    }
    std::vector<Value> results;
    for (const Tensor& output : graph.outputs) results.push_back(at(output));
    again = !fixed.empty();
    if (!again) return results;
    for (const Tensor& output : graph.outputs)
      if (const std::uint32_t number = graph.number(output); !fixed[number]) slots[number] = {};
    return results;
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
    for (std::size_t i = 0; i < count; ++i)
      for (const Tensor& operand : graph.nodes[i].node()->inputs()) last_use[graph.number(operand)] = i;
    for (std::size_t i = 0; i < fixed.size(); ++i)
      if (fixed[i]) last_use[i] = count;
    for (const Tensor& output : graph.outputs) last_use[graph.number(output)] = count;
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

std::vector<Value> execute_region(const Node& node, std::span<const Type> types, std::span<const Value> operands,
                                  std::span<const std::int64_t> symbols) {
  if (node.definition) return eager::execute_elementwise(*node.definition, types, operands);
  const bool on_device = types[0].device.type != Device::Type::cpu;
  if (info(node.op).kind == OpKind::factorization && !on_device)
    return eager::execute_factorization(node.op, node.attributes(), types, operands);
  if (is_loop(node.op) && !on_device) {
    if (node.op == Op::scan) return execute_scan(node, types, operands, symbols);
    if (node.op == Op::while_loop) return execute_while(node, operands, symbols);
    return Run{*node.bodies()[*operands[0].as<bool>() ? 0 : 1], operands.subspan(1), symbols}.run();
  }
  if (on_device && symbols.empty()) return eager::execute_call_on_device(node, types, operands);
  if (const Callee* callee = on_device ? nullptr : node.callee())
    if (const auto program = program_of(*callee)) return program->run(operands);
  return Run{*node.bodies()[0], operands, symbols}.run();
}

// ---- what is pending ------------------------------------------------------------------------------------------------

// The uncomputed nodes below `roots`, in the order in which they were recorded. None where the lock does not cover one.
std::optional<std::vector<Node*>> collect(std::span<const Tensor> roots, const EvaluationLock& lock,
                                          const char* operation, Loc loc) {
  std::vector<Node*> order;
  NodeNumbers numbers;
  bool covered = true;
  auto visit = [&](Node* node) {
    if (computed(node) || !numbers.set(node, 0)) return;
    covered = covered && lock.covers(*node);
    if (is_loop_id(node->trace))
      fail(operation, loc, "the value of a tensor (", made_at(*node),
           ") of the body of a loop is not known while the body is recorded: choose with where(condition, a, b) or "
           "cond(predicate, if_true, if_false, operands...), or return the tensor and read it after the loop");
    if (node->trace != 0)
      fail(operation, loc, "the value of a tensor (", made_at(*node),
           ") is not known while a compiled function is traced: choose with where(condition, a, b), or return the "
           "tensor "
           "and read it outside");
    order.push_back(node);
  };
  for (const Tensor& root : roots) visit(root.node());
  for (std::size_t i = 0; i < order.size() && covered; ++i)
    for (const Tensor& operand : order[i]->inputs()) visit(operand.node());
  if (!covered) return {};
  if (order.size() > 1)
    std::sort(order.begin(), order.end(), [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  return order;
}

Loc outermost(Loc loc) { return recorder().loc.file ? recorder().loc : loc; }

void require_defined(const Tensor& tensor, const char* operation, Loc loc) {
  if (!tensor.defined()) fail(operation, outermost(loc), "of an undefined tensor");
}

// Who answers for the value where it is one of the trace that is recorded; else null.
Decider* decider_of(const Tensor& tensor) {
  const Trace* const trace = recorder().trace();
  return trace && tensor.defined() && tensor.node()->trace == trace->id ? trace->decider : nullptr;
}

// The value in the host's memory.
Value read(const Tensor& tensor, const char* operation, Loc loc) {
  require_defined(tensor, operation, loc);
  if (Decider* const decider = decider_of(tensor)) return read(decider->value(tensor, outermost(loc)), operation, loc);
  evaluate(std::span(&tensor, 1), loc, operation);
  Value value = value_of(tensor);
  if (value.type.device.type == Device::Type::cpu) return eager::make_contiguous(value);
  WEFT_CHECK(value.contiguous(), "a strided value on a device");
  Type type = value.type;
  type.device = Device::cpu();
  Value host = eager::make_value(type);
  DeviceInterface& memory = device_interface(value.type.device.type);
  memory.copy(host.data(), type.device, value.data(), value.type.device, storage_bytes(type.dtype, value.sizes.count()),
              value.storage->queue);
  memory.synchronize(value.type.device);
  return host;
}

void require_one(const Tensor& tensor, Loc loc, const char* operation = "item", const char* advice = "") {
  require_defined(tensor, operation, loc);
  if (!type_of(tensor).shape.element_count().same(Dim(1)))
    fail(operation, outermost(loc), "needs one element, the tensor is ", to_string(type_of(tensor)), advice);
}
Value read_one(const Tensor& tensor, DType dtype, Loc loc) {
  require_one(tensor, loc);
  return eager::convert(read(tensor, "item", loc), dtype);
}

// The node of a constant number, which holds the value itself: reading it computes nothing. Null for other tensors.
const Node* number_node(const Tensor& tensor) {
  const Node* node = tensor.node();
  bool known = node && node->op == Op::constant && node->type.shape.rank() == 0 &&
               !node->attributes<Constant>().is_size() &&
               (node->type.dtype == DType::f64 || node->type.dtype == DType::i64);
  return known ? node : nullptr;
}

std::int64_t decide(Decider& decider, const Tensor& tensor, Asked asked, Loc loc) {
  require_one(tensor, loc);
  return decider.decide(tensor, asked, outermost(loc));
}

void require_dtype(const Tensor& tensor, DType wanted, const char* operation, Loc loc) {
  require_defined(tensor, operation, loc);
  if (type_of(tensor).dtype != wanted)
    fail(operation, outermost(loc), "as ", info(wanted).name, ", the tensor is ", to_string(type_of(tensor)),
         ": cast it first");
}

}  // namespace

namespace {
constexpr int first_evaluation = static_cast<int>(LockOrder::evaluation),
              evaluation_locks = static_cast<int>(LockOrder::last_evaluation) - first_evaluation + 1;
static_assert(256 % evaluation_locks == 0);  // Node::owner has 8 bits of a thread's number
int lock_of(std::uint64_t thread) { return first_evaluation + static_cast<int>(thread % evaluation_locks); }
void lock_all(int first, int last) {
  for (int i = first; i <= last; ++i) process_mutex(static_cast<LockOrder>(i)).lock();
}
void unlock_all(int first, int last) {
  for (int i = last; i >= first; --i) process_mutex(static_cast<LockOrder>(i)).unlock();
}
}  // namespace

EvaluationLock::EvaluationLock() : first_(lock_of(this_thread())), last_(first_) { lock_all(first_, last_); }
EvaluationLock::~EvaluationLock() { unlock_all(first_, last_); }
bool EvaluationLock::covers(const Node& node) const {
  const int lock = lock_of(node.owner);
  return first_ <= lock && lock <= last_;
}
void EvaluationLock::cover_all() {
  unlock_all(first_, last_);
  first_ = first_evaluation;
  last_ = first_evaluation + evaluation_locks - 1;
  lock_all(first_, last_);
}

namespace {

// Whether nothing but this update can read what it updates.
bool is_last_reader(const Node& update) {
  if (update.op != Op::update_rows && update.op != Op::update_slice) return false;
  const Tensor& updated = update.input(0);
  const Node& node = *updated.node();
  return node.output_count == 1 && __atomic_load_n(&node.references, __ATOMIC_ACQUIRE) == 1 && unique(node.storage);
}

// Computes every output of a node whose operands are computed. Where these are dropped next, an update is given the
// only reference to memory that nothing else reads: it may write there.
void execute_eagerly(Node* node, bool drops_operands) {
  if (computed(node)) return;
  Node* const lender = drops_operands && is_last_reader(*node) ? node->input(0).node() : nullptr;
  std::vector<Value> many;
  Value few[3];
  std::span<Value> operands(few, std::min<std::size_t>(node->operand_count, 3));
  if (node->operand_count > 3) {
    many.resize(node->operand_count);
    operands = many;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) operands[i] = value_of(node->input(i));
  if (has_several_results(node->op)) {
    std::vector<Value> results = execute_region(*node, types_of(*node), operands, {});
    for (std::size_t i = 1; i < results.size(); ++i) results[i] = made_plain(results[i]);
    // From here on no memory is asked for but that of lists: a call that has none for its results is as before.
    std::vector<Storage*> storages;
    storages.reserve(results.size());
    for (std::size_t i = 1; i < results.size(); ++i) storages.push_back(std::exchange(results[i].storage, nullptr));
    if (!storages.empty()) node->more->storages.swap(storages);
    set_computed(node, std::move(results[0]));
    return;
  }
  // The lender has its memory back at the end, also where the update throws.
  struct Loan {
    Node* lender;
    std::span<Value> operands;
    ~Loan() {
      if (lender) lender->storage = std::exchange(operands[0].storage, nullptr);
    }
  } const loan{lender, operands};
  if (lender) release(std::exchange(lender->storage, nullptr));
  set_computed(node, eager::execute(node->op, node->attributes(), node->type, operands, node->loc));
}

}  // namespace

namespace {
struct OpenLevels {
  // Under LockOrder::levels.
  std::uint32_t generation = 0;  // of the process: a forked child has no levels of other threads
  std::vector<std::uint64_t> starts;
  std::atomic<std::uint64_t> oldest = UINT64_MAX;
  // Evaluated values that hold their operands, by their owners' locks, and under these.
  std::vector<Tensor> kept[evaluation_locks];

  void change(std::uint64_t start, bool opens) {
    const std::lock_guard lock(process_mutex(LockOrder::levels));
    if (std::exchange(generation, process_generation()) != generation) starts.clear();
    if (opens)
      starts.push_back(start);
    else if (const auto found = std::find(starts.begin(), starts.end(), start); found != starts.end())
      starts.erase(found);
    oldest = starts.empty() ? UINT64_MAX : *std::min_element(starts.begin(), starts.end());
  }
  std::vector<Tensor>& kept_of(const Node& node) { return kept[lock_of(node.owner) - first_evaluation]; }
};
OpenLevels& open_levels() {
  static constinit Lazy<OpenLevels> levels;
  return levels.get();
}
}  // namespace

// A gradient's rows are asked for after it is computed.
static void sever(Node* node) {
  if (node->operand_count == 0 || is_row_gradient(*node)) return;
  drop_operands(node);
  node->severed = true;
}

void open_level(std::uint64_t start) { open_levels().change(start, true); }

void close_level(std::uint64_t start) {
  OpenLevels& levels = open_levels();
  levels.change(start, false);
  for (int i = 0; i < evaluation_locks; ++i) {
    std::vector<Tensor> dropped;  // freed after the lock is
    const std::lock_guard lock(process_mutex(static_cast<LockOrder>(first_evaluation + i)));
    const std::uint64_t oldest = levels.oldest;  // of all levels that keep something here
    std::vector<Tensor>& kept = levels.kept[i];
    const auto first =
        std::partition(kept.begin(), kept.end(), [&](const Tensor& value) { return value.node()->sequence >= oldest; });
    dropped.assign(std::make_move_iterator(first), std::make_move_iterator(kept.end()));
    kept.erase(first, kept.end());
    for (const Tensor& value : dropped) sever(value.node());
  }
}

void evaluate(std::span<const Tensor> values, Loc loc, const char* operation) {
  bool pending = false;
  for (const Tensor& value : values) pending = pending || !computed(value.node());
  if (!pending) return;
  const DefaultFloatModes modes;
  EvaluationLock lock;
  std::optional<std::vector<Node*>> nodes = collect(values, lock, operation, outermost(loc));
  if (!nodes) {
    lock.cover_all();
    nodes = collect(values, lock, operation, outermost(loc));
  }
  const CalledOperation named(nullptr);  // what is pending was called before
  OpenLevels& levels = open_levels();
  // Nodes that are executed may be freed when their last user lets go of them: they are not looked at again.
  for (Node* node : *nodes) {
    const bool keeps_operands = node->sequence >= levels.oldest;
    naming_memory([&] { execute_eagerly(node, !keeps_operands); }, [&] { return to_string(node->type); },
                  name_of(*node), node->loc);
    if (!keeps_operands)
      sever(node);
    else if (node->operand_count > 0)
      levels.kept_of(*node).emplace_back(node);
  }
}

std::vector<Tensor> run_eagerly(const Graph& graph, std::span<const Tensor> inputs,
                                std::span<const std::int64_t> symbols, Loc loc, const WatchNode* watch) {
  evaluate(inputs, loc);
  std::vector<Value> values;
  for (const Tensor& input : inputs) values.push_back(value_of(input));
  std::vector<Tensor> results;
  Run run{graph, values, symbols};
  run.watch = watch;
  for (Value& value : run.run()) results.push_back(tensor_of(std::move(value), loc));
  return results;
}

std::string answer_text(Asked asked, std::int64_t answer) {
  if (asked == Asked::elements) return "read";
  if (asked == Asked::boolean) return answer ? "true" : "false";
  return asked == Asked::natural ? std::to_string(static_cast<std::uint64_t>(answer)) : std::to_string(answer);
}

std::int64_t answer(const Tensor& value, Asked asked, Loc loc) {
  const auto integer_of = [&](double number) {
    const bool natural = asked == Asked::natural;
    const double low = natural ? 0 : -0x1p63, limit = natural ? 0x1p64 : 0x1p63, whole = std::trunc(number);
    if (!(low <= whole && whole < limit)) fail("item", loc, number, " does not fit into the integer that is asked for");
    return natural ? static_cast<std::int64_t>(static_cast<std::uint64_t>(whole)) : static_cast<std::int64_t>(whole);
  };
  const Type& type = type_of(value);
  const Storage* const storage = storage_of(value);
  if (storage && type.device.type == Device::Type::cpu && !layout_of(value)) {  // the usual case, without a copy
    if (type.dtype == DType::boolean) return *static_cast<const bool*>(storage->data);
    if (type.dtype == DType::i64) {
      const std::int64_t number = *static_cast<const std::int64_t*>(storage->data);
      return asked == Asked::boolean ? number != 0 : number;
    }
    if (type.dtype == DType::f32) {
      const float number = *static_cast<const float*>(storage->data);
      return asked == Asked::boolean ? number != 0 : integer_of(static_cast<double>(number));
    }
  }
  if (asked == Asked::integer && !is_floating(type.dtype)) return *read_one(value, DType::i64, loc).as<std::int64_t>();
  const double number = *read_one(value, DType::f64, loc).as<double>();
  return asked == Asked::boolean ? number != 0 : integer_of(number);
}

void refuse_host_data(const char* operation, Loc loc) {
  fail(operation, loc, "data from host memory in a compiled function: pass it as an argument, or use constant()");
}

Tensor known_value(const char* operation, const Tensor& value, Loc loc) {
  if (Decider* const decider = decider_of(value)) return decider->value(value, loc);
  if (recorder().trace())
    fail(operation, loc,
         "the size of the result depends on values, which a loop's body and a function compiled with {.fullgraph = "
         "true} "
         "do not know");
  return value;
}

Tensor counted_data(std::span<const std::int64_t> elements, const Shape& shape, Device device, Loc loc) {
  const auto made = [&] {
    Type type{DType::i64, false, {}, shape};
    Value value = eager::make_value(type);
    if (!elements.empty()) std::memcpy(value.data(), elements.data(), elements.size_bytes());
    return to(make_data(std::exchange(value.storage, nullptr), type, loc), device, loc);
  };
  Trace* const trace = recorder().trace();
  if (!trace) return made();
  Tensor outside;
  {
    const OutsideTraces no_trace;
    outside = made();
  }
  return trace->decider->counted_data(outside, loc);
}

Contiguous contiguous(const Tensor& value, Loc loc) {
  require_defined(value, "contiguous", loc);
  if (Decider* const decider = decider_of(value)) return contiguous(decider->value(value, outermost(loc)), loc);
  evaluate(std::span(&value, 1), loc);
  Value result = eager::make_contiguous(value_of(value));
  std::int64_t offset = result.layout.offset;
  return {std::exchange(result.storage, nullptr), offset};
}

Tensor make_data(Storage* storage, Type type, Loc loc) try {
  Tensor tensor = Builder(loc, 0, 0).make(Op::data, {}, Contents{}, type);
  tensor.node()->storage = storage;
  return tensor;
} catch (...) {
  if (storage) release(storage);
  throw;
}

Storage* storage_of(const Tensor& value) {
  const Node* node = value.node();
  Storage* first = computed(node);
  if (value.output() == 0 || !first) return first;
  return node->more->storages[value.output() - 1];
}

const Layout* layout_of(const Tensor& value) { return value.output() == 0 ? value.node()->layout : nullptr; }

Tensor::operator bool() const {
  const Loc loc = defined() ? node()->loc : Loc();  // a condition has no line; what it asks is most often written there
  require_one(*this, loc, "bool", ": say any(x) or all(x); element by element & | ~ for && || !");
  return detail::read_item_boolean(*this, loc);
}

namespace detail {

const void* read_data(const Tensor& tensor, DType wanted, Storage** owner, std::int64_t* count, Loc loc) {
  require_dtype(tensor, wanted, "data", loc);
  Value value = read(tensor, "data", loc);
  const void* elements = value.data();
  *count = value.sizes.count();
  *owner = std::exchange(value.storage, nullptr);
  return elements;
}

double read_item(const Tensor& tensor, Loc loc) {
  if (const Node* node = number_node(tensor)) return node->attributes<Constant>().as_number(node->type.dtype);
  return *read_one(tensor, DType::f64, loc).as<double>();
}

bool read_item_boolean(const Tensor& tensor, Loc loc) {
  if (const Node* node = number_node(tensor)) return node->attributes<Constant>().as_number(node->type.dtype) != 0;
  if (Decider* const decider = decider_of(tensor)) return decide(*decider, tensor, Asked::boolean, loc) != 0;
  return *read_one(tensor, DType::f64, loc).as<double>() != 0;
}

std::int64_t read_item_integer(const Tensor& tensor, std::int64_t low, std::uint64_t high, Loc loc) {
  const auto refuse = [&](auto value) {
    fail("item", outermost(loc), value, " does not fit into the integer that is asked for, of ", low, " to ", high);
  };
  if (Decider* const decider = number_node(tensor) ? nullptr : decider_of(tensor)) {
    if (high > INT64_MAX && is_floating(type_of(tensor).dtype)) return decide(*decider, tensor, Asked::natural, loc);
    const std::int64_t value = decide(*decider, tensor, Asked::integer, loc);
    if (value < low || (value > 0 && static_cast<std::uint64_t>(value) > high)) refuse(value);
    return value;
  }
  if (tensor.defined() && is_floating(type_of(tensor).dtype)) {
    const double value = read_item(tensor, loc), whole = std::trunc(value);
    if (!(static_cast<double>(low) <= whole && whole < static_cast<double>(high) + 1)) refuse(value);
    return whole < 0 ? static_cast<std::int64_t>(whole) : static_cast<std::int64_t>(static_cast<std::uint64_t>(whole));
  }
  const Node* node = number_node(tensor);
  const std::int64_t value = node && node->type.dtype == DType::i64
                                 ? node->attributes<Constant>().as_integer()
                                 : *read_one(tensor, DType::i64, loc).as<std::int64_t>();
  if (value < low || (value > 0 && static_cast<std::uint64_t>(value) > high)) refuse(value);
  return value;
}

void copy_out(const Tensor& tensor, DType wanted, void* to, std::size_t count, Loc loc) {
  require_dtype(tensor, wanted, "copy_to", loc);
  Value value = read(tensor, "copy_to", loc);
  if (static_cast<std::int64_t>(count) != value.sizes.count())
    fail("copy_to", outermost(loc), "into ", counted(static_cast<std::int64_t>(count), "element", "elements"),
         ", the tensor is ", to_string(value.type));
  if (count) std::memcpy(to, value.data(), storage_bytes(wanted, value.sizes.count()));
}

// In a trace the contents are part of the graph: their digest is what tells two graphs apart.
Tensor copy_in(const void* from, DType dtype, const Shape& shape, std::size_t count, HostData function, Loc loc) {
  Type type{dtype, false, {}, shape};
  const bool traced = function == HostData::constant;
  const char* operation = traced ? "constant" : function == HostData::from_list ? "from_list" : "from_span";
  loc = outermost(loc);
  Trace* trace = recorder().function() ? recorder().trace() : nullptr;  // eagerly a body captures it
  if (trace && !traced && !trace->decider) refuse_host_data(operation, loc);
  for (Dim size : shape)
    if (!size.is_constant() || size.constant() < 0) fail(operation, loc, "the sizes must be known: ", to_string(type));
  check_count(operation, type, loc);
  Value value = eager::make_value(type);
  std::size_t bytes = storage_bytes(dtype, value.sizes.count());
  if (static_cast<std::int64_t>(count) != value.sizes.count())
    fail(operation, loc, counted(static_cast<std::int64_t>(count), "element does", "elements do"), " not fill ",
         to_string(type));
  if (count) std::memcpy(value.data(), from, bytes);
  Tensor tensor = make_data(std::exchange(value.storage, nullptr), type, loc);
  if (trace) {
    Node* node = tensor.node();
    node->trace = trace->id;
    if (traced)
      node->attributes_ = Contents{static_cast<std::int64_t>(digest({static_cast<const char*>(from), bytes}).low)};
    ++trace->recorded;
    if (trace->decider)
      traced ? trace->decider->constant_data(tensor) : trace->decider->host_data(tensor, operation, loc);
  }
  return tensor;
}

}  // namespace detail
}  // namespace weft
