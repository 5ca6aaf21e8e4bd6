#include "record/evaluate.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "base/ending.hpp"
#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/per_thread.hpp"
#include "eager/device.hpp"
#include "record/computed_call.hpp"
#include "record/dry_run.hpp"
#include "record/host_call.hpp"
#include "record/loops.hpp"
#include "record/record.hpp"
#include "record/row_gradients.hpp"
#include "record/run_graph.hpp"
#include "record/unknown_values.hpp"
#include "record/values.hpp"

namespace weft {

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

void EvaluationLock::leave() { unlock_all(first_, last_); }
void EvaluationLock::come_back() { lock_all(first_, last_); }

namespace {
// That of the thread's evaluation; null while there is none.
struct OwnLock {
  EvaluationLock* lock = nullptr;
};
class Evaluating {
 public:
  explicit Evaluating(EvaluationLock& lock) { per_thread<OwnLock>().lock = &lock; }
  ~Evaluating() { per_thread<OwnLock>().lock = nullptr; }
  Evaluating(const Evaluating&) = delete;
};
}  // namespace

EvaluationPause::EvaluationPause() : held_(std::exchange(per_thread<OwnLock>().lock, nullptr)) {
  if (held_) held_->leave();
}
EvaluationPause::~EvaluationPause() {
  if (!held_) return;
  held_->come_back();
  per_thread<OwnLock>().lock = held_;
}

namespace {

using eager::Value;

// The callee of a scan that another one computes, until it is evaluated.
struct LongerLoop : Callee {
  explicit LongerLoop(const Tensor& loop) : Callee{}, loop(loop) {}
  Tensor loop;
};
const LongerLoop* longer_loop(const Node& node) {
  return node.op == Op::scan ? static_cast<const LongerLoop*>(node.callee()) : nullptr;
}

// The uncomputed nodes below `roots`, in the order in which they were recorded. None where the lock does not cover one.
std::optional<std::vector<Node*>> collect(std::span<const Tensor> roots, const EvaluationLock& lock,
                                          const char* operation, Loc loc) {
  std::vector<Node*> order;
  NodeNumbers numbers;
  bool covered = true;
  auto visit = [&](Node* node) {
    if (computed(node) || !numbers.set(node, 0)) return;
    covered = covered && lock.covers(*node);
    if (is_example_body(node->trace))
      fail(operation, loc, "the value of a tensor (", made_at(*node),
           ") of one example is not known inside vmap, where it is computed from an example, from random numbers or by "
           "the host: choose with where(condition, a, b), or return the tensor and read it after vmap");
    if (is_unknown(*node))
      fail(operation, loc, "the value of a tensor (", made_at(*node),
           ") is not known: it was specified by tensor_spec, or is a result of a function that precompile does not "
           "run; leave out of what is precompiled what reads values");
    if (is_loop_id(node->trace))
      fail(operation, loc, "the value of a tensor (", made_at(*node),
           ") of the body of a loop or a checkpointed function is not known while it is recorded: choose with "
           "where(condition, a, b) or "
           "cond(predicate, if_true, if_false, operands...), or return the tensor and read it afterwards");
    if (node->trace != 0) {
      const Trace* const trace = recorder().trace();
      const bool fullgraph = trace && trace->id == node->trace && !trace->decider;
      fail(operation, loc, "the value of a tensor (", made_at(*node), ") is not known ",
           fullgraph ? where_values_are_unknown() : std::string("while a compiled function is traced"),
           ": choose with where(condition, a, b), or return the tensor and read it outside");
    }
    order.push_back(node);
  };
  for (const Tensor& root : roots) visit(root.node());
  for (std::size_t i = 0; i < order.size() && covered; ++i) {
    for (const Tensor& operand : order[i]->inputs()) visit(operand.node());
    const LongerLoop* const by = longer_loop(*order[i]);
    // One that nobody else holds has further results that nobody reads.
    if (by && __atomic_load_n(&by->loop.node()->references, __ATOMIC_ACQUIRE) > 1) visit(by->loop.node());
  }
  if (!covered) return {};
  if (order.size() > 1)
    std::sort(order.begin(), order.end(), [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  return order;
}

// Whether nothing but this update can read what it updates.
bool is_last_reader(const Node& update) {
  if (update.op != Op::update_rows && update.op != Op::update_slice) return false;
  const Tensor& updated = update.input(0);
  const Node& node = *updated.node();
  return node.output_count == 1 && __atomic_load_n(&node.references, __ATOMIC_ACQUIRE) == 1 && unique(node.storage);
}

// The results of a scan, from a computed loop whose results begin with them.
void take_results(Node* loop, const Tensor& longer) {
  std::vector<Storage*> storages;
  storages.reserve(loop->output_count);
  for (unsigned i = 1; i < loop->output_count; ++i) {
    storages.push_back(longer.node()->more->storages[i - 1]);
    retain(storages.back());
  }
  loop->more->storages.swap(storages);
  set_computed(loop, value_of(longer));
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

// A gradient's rows are asked for after it is computed.
void sever(Node* node) {
  if (node->operand_count == 0 || is_row_gradient(*node)) return;
  drop_operands(node);
  node->severed = true;
}

// `nodes`: what is evaluated, without the longer loops that were run before their turn.
void evaluate_node(Node* node, std::vector<Node*>& nodes) {
  OpenLevels& levels = open_levels();
  const bool keeps_operands = node->sequence >= levels.oldest;
  if (const LongerLoop* const by = longer_loop(*node)) {
    const Tensor longer = by->loop;
    node->more->callee = {};
    if (const auto turn = std::ranges::find(nodes, longer.node()); turn != nodes.end()) {
      *turn = nullptr;
      evaluate_node(longer.node(), nodes);
    }
    if (computed(longer.node())) take_results(node, longer);
  }
  const char* const called = node->scope ? interned_text(node->scope).c_str() : name_of(*node);
  naming_memory([&] { execute_eagerly(node, !keeps_operands); }, [&] { return to_string(node->type); }, called,
                node->loc);
  if (!keeps_operands)
    sever(node);
  else if (node->operand_count > 0)
    levels.kept_of(*node).emplace_back(node);
}

}  // namespace

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
  const NotEnding working;  // before the lock: a thread that ends the process may want it
  EvaluationLock lock;
  std::optional<std::vector<Node*>> nodes = collect(values, lock, operation, outermost(loc));
  if (!nodes) {
    lock.cover_all();
    nodes = collect(values, lock, operation, outermost(loc));
  }
  const Evaluating evaluating(lock);
  const CalledOperation named(nullptr);  // what is pending was called before
  // Nodes that are executed may be freed when their last user lets go of them: they are not looked at again.
  struct Coming {
    std::span<Node* const> before = eager::coming_nodes();
    ~Coming() { eager::coming_nodes() = before; }
  } const coming;
  for (std::size_t i = 0; i < nodes->size(); ++i)
    if ((*nodes)[i]) {
      eager::coming_nodes() = std::span(*nodes).subspan(i + 1);
      evaluate_node((*nodes)[i], *nodes);
    }
}

void compute_by(const Tensor& loop, const Tensor& longer) {
  EvaluationLock lock;
  if (!lock.covers(*loop.node())) lock.cover_all();
  if (!computed(loop.node())) loop.node()->more->callee = std::make_shared<const LongerLoop>(longer);
}

namespace {
// It keeps its operands until the open levels close.
void keep_operands(const Tensor& value) {
  const EvaluationLock lock;
  OpenLevels& levels = open_levels();
  if (value.node()->sequence >= levels.oldest)
    levels.kept_of(*value.node()).emplace_back(value.node());
  else
    sever(value.node());
}
}  // namespace

static void refuse_body(const CallValues&, std::span<Tensor>) {
  WEFT_CHECK(false, "a computed call is differentiated as one that has a body");
}
ComputedCallee::ComputedCallee(const Attributes& called) : Callee{called, {}, refuse_body} {}
const ComputedCallee* computed_callee(const Node& node) {
  const Callee* const callee = node.callee();
  return callee && callee->derivative == refuse_body ? static_cast<const ComputedCallee*>(callee) : nullptr;
}

// Of a dry run the results have no memory, and neither has the call.
Tensor make_computed_call(std::shared_ptr<const ComputedCallee> callee, std::span<const Tensor> operands,
                          std::span<const Tensor> results, Loc loc) {
  std::vector<Value> values;
  std::vector<Type> types;
  for (const Tensor& result : results) {
    if (storage_of(result)) values.push_back(made_plain(value_of(result)));
    types.push_back(type_of(result));
  }
  Tensor call = Builder(loc, 0, 0).make(Op::call, operands, callee->called, types[0]);
  Node* const node = call.node();
  set_more_results(*node, std::span(types).subspan(1));
  std::vector<Storage*>& storages = node->make_more().storages;
  storages.reserve(values.size());
  for (std::size_t i = 1; i < values.size(); ++i) storages.push_back(std::exchange(values[i].storage, nullptr));
  node->more->callee = std::move(callee);
  if (!values.empty()) set_computed(node, std::move(values[0]));
  keep_operands(call);
  return call;
}

Tensor computed_alias(const Tensor& value, Loc loc) {
  Tensor alias = Builder(loc, 0, 0).make(Op::variable, {value});
  if (storage_of(value)) set_computed(alias.node(), value_of(value));
  keep_operands(alias);
  return alias;
}

Tensor make_data(Storage* storage, Type type, Loc loc) try {
  Tensor tensor = Builder(loc, 0, 0).make(Op::data, {}, Contents{}, type);
  tensor.node()->storage = storage;
  return tensor;
} catch (...) {
  if (storage) release(storage);
  throw;
}

Tensor unknown_value(const Type& type, Loc loc) { return make_computed(type, loc); }
bool is_unknown(const Node& node) { return node.op == Op::data || computed_callee(node); }

Storage* storage_of(const Tensor& value) {
  const Node* node = value.node();
  Storage* first = computed(node);
  if (value.output() == 0 || !first) return first;
  return node->more->storages[value.output() - 1];
}

const Layout* layout_of(const Tensor& value) { return value.output() == 0 ? value.node()->layout : nullptr; }

}  // namespace weft
