// One call, from leaves to results. On a hit it allocates nothing but results, which come from free lists. Calls of
// several threads share counters, and no lock: the eight counts of Readers, by the number of the thread; the count that
// Check samples by; and, where another specialization is used than by the call before, Snapshot::last, Function::tick
// and Specialization::last_used. Locks are taken for the default generator where a call draws from it, for evaluation
// where an argument is pending, and for the process's free lists where the thread's have no fitting block.
#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/float_modes.hpp"
#include "base/per_thread.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/random.hpp"
#include "record/record.hpp"
#include "trace/function.hpp"
#include "trace/names.hpp"
#include "trace/replay.hpp"
#include "trace/run_page.hpp"

namespace weft::detail {
namespace {

struct ScratchStack {
  std::vector<std::unique_ptr<Scratch>> all;
  std::size_t depth = 0;
};
ScratchStack& scratch_stack() { return per_thread<ScratchStack>(); }

// Marks the arguments that share an object with another one: f(std::move(x), std::move(x)). State must not be
// reachable through another argument at all: the order of writes would decide. Sorted by address, an object that
// overlaps any before it overlaps the one of them that ends last.
void find_overlaps(Scratch& scratch, Loc loc) {
  const LeafList& arguments = scratch.arguments;
  scratch.overlaps.assign(arguments.argument, 0);
  std::vector<const LeafRun*>& runs = scratch.runs;
  runs.clear();
  bool all_inputs = true;
  for (const LeafRun& run : arguments.runs) {
    all_inputs = all_inputs && run.access == Access::input;
    if (run.begin != run.end) runs.push_back(&run);
  }
  if (all_inputs || runs.size() < 2) return;  // nothing is written, nothing gives its memory away
  std::sort(runs.begin(), runs.end(), [](const LeafRun* a, const LeafRun* b) { return a->begin < b->begin; });
  const LeafRun* last = runs.front();
  for (const LeafRun* run : runs) {
    if (run->begin < last->end && run->argument != last->argument) [[unlikely]] {
      const LeafRun *state = std::min(run, last), *other = std::max(run, last);  // in the order of the arguments
      if (state->access != Access::state) std::swap(state, other);
      if (state->access == Access::state)
        fail("compile", loc, "argument ", state->argument, ", which is written, overlaps argument ", other->argument,
             ": pass an object once (or through std::as_const, where a generic function only reads it)");
      scratch.overlaps[run->argument] = scratch.overlaps[last->argument] = 1;
    }
    if (run->end > last->end) last = run;
  }
}

// A number's value in memory: constants outside traces have none.
void write_constant(const Node& node, void* to) {
  const auto& number = node.attributes<Constant>();
  switch (node.type.dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, type)               \
  case DType::name:                                                                            \
    if constexpr (std::is_arithmetic_v<type>) {                                                \
      type value = is_floating(DType::name) ? static_cast<type>(number.as_number(DType::name)) \
                                            : static_cast<type>(number.as_integer());          \
      std::memcpy(to, &value, sizeof value);                                                   \
      return;                                                                                  \
    }                                                                                          \
    break;
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  WEFT_CHECK(false, "a constant of a dtype without C++ arithmetic");
}
bool is_plain_number(const Node& node) {
  return node.op == Op::constant && node.type.device.type == Device::Type::cpu && node.type.shape.rank() == 0 &&
         info(node.type.dtype).bits <= 64 && node.type.dtype != DType::f16 && node.type.dtype != DType::bf16;
}

// Holds the default generator from here to the end of the call. False where another thread has drawn since the call
// read its state.
bool hold_generator(Scratch& scratch) {
  if (scratch.generator.state) return true;
  scratch.generator = hold_default_generator();
  const Tensor& state = *scratch.generator.state;
  if (scratch.generator_state.defined() && !scratch.generator_state.same(state)) return false;
  scratch.generator_state = state;
  return true;
}

// One segment of a call.
class Execution {
 public:
  Execution(CallContext call, const Specialization& specialization, const Segment& segment)
      : call_(call), whole_(specialization), s_(segment), traced_(segment.traced), scratch_(call.scratch) {}

  // The last one: results and state.
  void run() {
    const DefaultFloatModes modes;
    scratch_.values.reserve(traced_.results.size() + traced_.states.size());
    compute();
    hand_out();
  }
  // The outcome of the decision that the segment ends in. What it keeps is in the scratch then, and of a loop how many
  // rounds it has run.
  std::int64_t decide() {
    const DefaultFloatModes modes;
    compute();
    if (!traced_.inputs.empty() && traced_.inputs.back() == rounds_leaf)
      scratch_.rounds = *static_cast<const std::int64_t*>(storage_of(scratch_.outputs[0])->data);
    const Decision& decision = *traced_.decision;
    const std::int64_t outcome = answer(value_of(decision.value), decision.asked, decision.loc);
    scratch_.values.clear();
    for (const Source& source : traced_.kept) scratch_.values.push_back(value_of(source));
    scratch_.kept.swap(scratch_.values);
    scratch_.values.clear();
    scratch_.outputs.clear();
    return outcome;
  }

 private:
  void compute() {
    read_symbols();
    compute_pending();
    if (s_.executable)
      run_plan();
    else if (!traced_.graph.outputs.empty() || !traced_.graph.effects.empty())
      run_graph();
  }

  Tensor& leaf_value(std::uint32_t leaf) {
    if (leaf == generator_leaf) return scratch_.generator_state;
    return is_kept(leaf) ? scratch_.kept[kept_index(leaf)] : scratch_.arguments.leaves[leaf].tensor();
  }
  Tensor& argument(std::size_t input) { return leaf_value(traced_.inputs[input]); }

  void read_symbols() {
    scratch_.symbols.clear();
    for (std::size_t i = 0; i < whole_.guards.symbols.size(); ++i)
      scratch_.symbols.push_back(whole_.guards.symbol_value(i, scratch_.words));
    if (s_.draws) hold_generator(scratch_);
  }

  void compute_pending() {
    scratch_.pending.clear();
    for (std::size_t i = 0; i < traced_.inputs.size(); ++i) {
      if (traced_.inputs[i] == rounds_leaf) continue;
      const Tensor& value = argument(i);
      if (!storage_of(value) && !is_plain_number(*value.node())) scratch_.pending.push_back(value);
    }
    if (scratch_.pending.empty()) return;
    evaluate(scratch_.pending, call_.loc);
    scratch_.pending.clear();
  }

  Type output_type(std::size_t output) const {
    Type type = s_.output_types[output];
    if (whole_.symbolic)
      for (int axis = 0; axis < type.shape.rank(); ++axis)
        if (!type.shape[axis].is_constant()) type.shape[axis] = dims::evaluate(type.shape[axis], scratch_.symbols);
    if (whole_.symbolic) check_count("compile", type, call_.loc);
    return type;
  }

  void* pointer_to(const Tensor& value) {
    const Node& node = *value.node();
    Storage* storage = storage_of(value);
    if (!storage) {
      scratch_.numbers.push_back(0);
      write_constant(node, &scratch_.numbers.back());
      return &scratch_.numbers.back();
    }
    if (!layout_of(value)) return storage->data;
    Contiguous copy = contiguous(value, call_.loc);
    scratch_.held.push_back(copy.storage);
    return static_cast<char*>(copy.storage->data) + storage_bytes(type_of(value).dtype, copy.offset);
  }

  // The memory of an argument that dies with this call, where the plan lets this result be written into it and nothing
  // else looks at it: no other handle, no view, no other argument that is the same object.
  Storage* donated(std::size_t output, std::size_t bytes) {
    const std::uint32_t donor = s_.donors[output];
    if (donor == no_leaf) return nullptr;
    const Leaf& leaf = scratch_.arguments.leaves[donor];
    const Tensor& value = leaf.tensor();
    const Node& node = *value.node();
    Storage* storage = node.storage;
    if (!storage || value.output() != 0 || node.layout || storage->bytes < bytes) return nullptr;
    const bool own = __atomic_load_n(&node.references, __ATOMIC_ACQUIRE) == 1 && unique(storage) &&
                     !scratch_.overlaps[leaf.argument];
    if (!own) return nullptr;
    weft::retain(storage);
    return storage;
  }

  void run_plan() {
    const runtime::Plan& plan = s_.executable->plan;
    std::size_t count = traced_.inputs.size();
    scratch_.numbers.clear();
    scratch_.numbers.reserve(count);  // pointers into it stay
    scratch_.held.reserve(count);
    scratch_.argument_pointers.clear();
    scratch_.result_pointers.clear();
    for (std::size_t i = 0; i < count; ++i)
      scratch_.argument_pointers.push_back(traced_.inputs[i] == rounds_leaf ? &scratch_.rounds
                                                                            : pointer_to(argument(i)));
    bool checks_wait = s_.checks_wait;
    for (std::size_t i = 0; i < s_.output_types.size(); ++i) {
      Type type = output_type(i);
      std::size_t bytes = storage_bytes(type.dtype, type.shape.element_count().constant());
      scratch_.outputs.push_back(make_computed(type, call_.loc));
      Storage*& storage = scratch_.outputs.back().node()->storage;
      storage = donated(i, bytes);
      if (!storage) {
        storage = allocate(type.device, bytes);
        checks_wait = checks_wait && s_.donors[i] == no_leaf;
      }
      scratch_.result_pointers.push_back(storage->data);
    }
    // From here on memory of the arguments may be written. What is left to allocate, arena and workspace, the plan
    // allocates before its first launch.
    runtime::run(plan, scratch_.argument_pointers, scratch_.result_pointers, scratch_.symbols, nullptr, blocks(),
                 checks_wait);
  }

  // What the pointers look into on a device, where the plan's work is queued.
  std::span<Storage* const> blocks() {
    const Device device = s_.executable->plan.device;
    scratch_.blocks.clear();
    if (device.type == Device::Type::cpu) return {};
    const auto add = [&](Storage* storage) {
      if (storage && storage->device == device) scratch_.blocks.push_back(storage);
    };
    for (std::size_t i = 0; i < traced_.inputs.size(); ++i) add(storage_of(argument(i)));
    for (Storage* storage : scratch_.held) add(storage);
    for (const Tensor& output : scratch_.outputs) add(storage_of(output));
    return scratch_.blocks;
  }

  void run_graph() {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < traced_.inputs.size(); ++i) inputs.push_back(argument(i));
    scratch_.outputs = replay(traced_.graph, inputs, scratch_.symbols, s_.backend, call_.loc);
  }

  Tensor value_of(const Source& source) {
    switch (source.kind) {
      case Source::Kind::computed: return scratch_.outputs[source.index];
      case Source::Kind::argument: return leaf_value(source.index);
      default: return Tensor();
    }
  }

  // Results and state get their tensors: nothing here can fail.
  void hand_out() {
    scratch_.values.clear();
    for (const Source& source : traced_.results) scratch_.values.push_back(value_of(source));
    for (const TraceResult::State& state : traced_.states) scratch_.values.push_back(value_of(state.source));
    if (traced_.generator.kind != Source::Kind::undefined) *scratch_.generator.state = value_of(traced_.generator);
    std::size_t next = 0;
    for (const Leaf& leaf : scratch_.results.leaves)
      if (holds_tensor(leaf.kind)) leaf.tensor() = std::move(scratch_.values[next++]);
    for (const TraceResult::State& state : traced_.states)
      scratch_.arguments.leaves[state.leaf].tensor() = std::move(scratch_.values[next++]);
    for (const TraceResult::Numbers& numbers : traced_.numbers)
      std::memcpy(scratch_.arguments.leaves[numbers.leaf].address, numbers.bytes.data(), numbers.bytes.size());
  }

  CallContext call_;
  const Specialization& whole_;
  const Segment& s_;
  const TraceResult& traced_;
  Scratch& scratch_;
};

// The way of a call through the tree, to the segment that gives its results.
void decide(CallContext call, const Specialization& specialization) {
  Scratch& scratch = call.scratch;
  if (scratch.path.empty()) scratch.path.push_back(&specialization.root);
  while (true) {
    bool drawn = scratch.generator_state.defined() && !hold_generator(scratch);
    while (!drawn && scratch.path.back()->segment->traced.decision) {
      const Branch& branch = *scratch.path.back();
      const Segment* const loop = branch.segment->rounds.load(std::memory_order_acquire);
      scratch.rounds = loop ? branch.rounds.load(std::memory_order_acquire) : 1;
      naming_memory(
          [&] {
            const std::int64_t outcome = Execution(call, specialization, loop ? *loop : *branch.segment).decide();
            for (; scratch.rounds > 1; --scratch.rounds) {
              scratch.outcomes.push_back(loop->round_outcome);
              scratch.path.push_back(scratch.path.back()->next_round.load(std::memory_order_relaxed));
            }
            scratch.outcomes.push_back(outcome);
          },
          [] { return std::string(); }, "compile", call.loc);
      const Branch* next = scratch.path.back()->find(scratch.outcomes.back(), specialization.guards, scratch.words);
      if (next) {
        scratch.path.push_back(next);
        continue;
      }
      scratch.generator = {};  // another call may hold it and wait for the function
      extend(call, specialization);
      drawn = scratch.generator_state.defined() && !hold_generator(scratch);
    }
    if (!drawn) break;
    // Another thread has drawn from the default generator meanwhile: the call goes its way with the numbers that
    // follow.
    scratch.generator_state = *scratch.generator.state;
    scratch.path.assign(1, &specialization.root);
    scratch.outcomes.clear();
    scratch.kept.clear();
  }
}

bool due(Check check, std::uint64_t calls) {
  if (calls < 2) return false;
  return check == Check::every_call || (calls & (calls - 1)) == 0;
}

// Calls join the trace that they are made in: what still comes here while one is made asks about a function.
void refuse_trace(Loc loc) {
  if (recorder().trace())
    fail("explain", loc,
         "explain() and is_compiled() can't be asked inside a compiled function, where a call becomes a part of that "
         "one: ask outside of it");
}

}  // namespace

void Scratch::clear() {
  arguments.clear();
  results.clear();
  pending.clear();
  values.clear();
  outputs.clear();
  for (Storage* storage : held)
    if (storage) weft::release(storage);
  held.clear();
  path.clear();
  outcomes.clear();
  kept.clear();
  generator = {};
  generator_state = Tensor();
  temporary.reset();
}

Scratch* take_scratch() {
  ScratchStack& stack = scratch_stack();
  if (stack.depth == stack.all.size()) stack.all.push_back(std::make_unique<Scratch>());
  return stack.all[stack.depth++].get();
}
void give_back(Scratch* scratch) noexcept {
  scratch->clear();
  --scratch_stack().depth;
}

bool joins_caller() {
  const Recorder& r = recorder();
  return !r.traces.empty() || r.level_start != UINT64_MAX;
}

Call::Call(Function* function, const CallSignature& signature, TraceBody body, void* context, Loc loc)
    : function_(function),
      signature_(signature),
      body_(body),
      context_(context),
      loc_(loc),
      scratch_(take_scratch()),
      arguments_(&scratch_->arguments),
      results_(&scratch_->results) {
  scratch_->reader = function->readers.enter(scratch_->thread);
}
Call::~Call() {
  function_->readers.leave(scratch_->reader);
  give_back(scratch_);
}

bool Call::known() {
  refuse_trace(loc_);
  encode(signature_, *arguments_, scratch_->words, loc_);
  return function_->find(scratch_->words) != nullptr;
}

const void* Call::prepare() {
  refuse_trace(loc_);
  CallContext call{*function_, signature_, body_, context_, loc_, *scratch_};
  find_overlaps(*scratch_, loc_);
  encode(signature_, *arguments_, scratch_->words, loc_);
  specialization_ = function_->find(scratch_->words);
  if (!specialization_) specialization_ = specialize(call);
  decide(call, *specialization_);
  // A thread that traces holds the function and may wait for the default generator: nobody waits the other way round.
  const std::uint64_t calls = specialization_->calls.load(std::memory_order_relaxed) + 1;
  if (scratch_->generator.state && due(function_->options.check, calls)) [[unlikely]] {
    scratch_->generator = {};
    check_again(call, *specialization_);
    decide(call, *specialization_);
  }
  return scratch_->path.back()->segment->traced.prototype.get();
}

void Call::run() {
  CallContext call{*function_, signature_, body_, context_, loc_, *scratch_};
  if (function_->options.check != Check::never) {
    const std::uint64_t calls = specialization_->calls.load(std::memory_order_relaxed) + 1;
    specialization_->calls.store(calls, std::memory_order_relaxed);
    if (!scratch_->generator.state && due(function_->options.check, calls)) [[unlikely]]
      check_again(call, *specialization_);
  }
  if (scratch_->path.size() > 1)
    for (const Branch* branch : scratch_->path)
      branch->calls.store(branch->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::optional<run_page::Call> on_page;
  if (run_page::is_on()) [[unlikely]]
    on_page.emplace(*specialization_);
  naming_memory([&] { Execution(call, *specialization_, *scratch_->path.back()->segment).run(); },
                [] { return std::string(); }, "compile", loc_);
  // What was moved in is left undefined: its memory may hold a result now.
  for (const Leaf& leaf : arguments_->leaves)
    if (leaf.access == Access::owned && holds_tensor(leaf.kind)) leaf.tensor() = Tensor();
}

}  // namespace weft::detail
