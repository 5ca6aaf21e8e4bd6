#include "trace/execution.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/failed_checks.hpp"
#include "base/float_modes.hpp"
#include "base/storage.hpp"
#include "record/dry_run.hpp"
#include "record/evaluate.hpp"
#include "record/held_generator.hpp"
#include "record/host_values.hpp"
#include "record/random.hpp"
#include "record/record.hpp"
#include "runtime/plan_memory.hpp"
#include "trace/background.hpp"
#include "trace/dry_run.hpp"
#include "trace/kernel_job.hpp"
#include "trace/level_call.hpp"
#include "trace/replay.hpp"

namespace weft::detail {
namespace {

// A number's value in memory: constants outside traces have none.
void write_constant(const Node& node, void* to) {
  const auto& number = node.attributes<Constant>();
  switch (node.type.dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type)     \
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
         info(node.type.dtype).bits <= 64 && !is_narrow_float(node.type.dtype);
}

Tensor& value_of_leaf(Scratch& scratch, std::uint32_t leaf) {
  if (leaf == generator_leaf) return scratch.generator_state;
  if (is_kept(leaf)) return scratch.kept[kept_index(leaf)];
  return scratch.originals.empty() ? scratch.arguments.leaves[leaf].tensor() : scratch.originals[leaf];
}

// Null where the graph is replayed.
const Kernels* kernels_of(const Segment& segment, const Function& function) {
  const Kernels* kernels = segment.kernels.load(std::memory_order_acquire);
  if (!kernels && segment.job) [[unlikely]] {
    if (function.options.async)
      background::tend();
    else
      segment.job->make();  // that another thread is at, or has failed at
    kernels = segment.kernels.load(std::memory_order_acquire);
  }
  return kernels && kernels->executable ? kernels : nullptr;
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
  std::vector<Tensor> values() {
    const DefaultFloatModes modes;
    compute();
    std::vector<Tensor> values;
    for (const Source& source : traced_.results) values.push_back(value_of(source));
    return values;
  }
  // The outcome of the decision that the segment ends in. What it keeps is in the scratch then, and of a loop how many
  // rounds it has run.
  std::int64_t decide() {
    const DefaultFloatModes modes;
    compute();
    if (!traced_.inputs.empty() && traced_.inputs.back() == rounds_leaf)
      scratch_.rounds = scratch_.outputs[0].defined()
                            ? *static_cast<const std::int64_t*>(storage_of(scratch_.outputs[0])->data)
                            : scratch_.answers[0];
    const Decision& decision = *traced_.decision;
    std::int64_t outcome = 0;
    if (decision.asked == Asked::elements)
      scratch_.asked = value_of(decision.value);
    else if (decision.value.kind == Source::Kind::computed && !scratch_.outputs[decision.value.index].defined())
      outcome = *reinterpret_cast<const unsigned char*>(&scratch_.answers[1]);
    else
      outcome = answer(value_of(decision.value), decision.asked, decision.loc);
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
    // A differentiation level may read the arguments later: no memory of theirs is given away.
    std::vector<Tensor> operands;
    for (std::size_t i = 0; whole_.level && i < traced_.inputs.size(); ++i) operands.push_back(argument(i));
    if (is_dry_run && !traced_.decision) {
      ask_for_kernels(call_.function, whole_, s_.job);
      for (std::size_t i = 0; i < s_.output_types.size(); ++i)
        scratch_.outputs.push_back(unknown_value(output_type(i), call_.loc));
    } else {
      compute_pending();
      if (const Kernels* const kernels = kernels_of(s_, call_.function))
        run_plan(*kernels);
      else if (!traced_.graph.outputs.empty() || !traced_.graph.effects.empty())
        run_graph();
    }
    if (whole_.level && !scratch_.outputs.empty())
      whole_.level->make_call(call_.function, operands, scratch_.symbols, scratch_.outputs, call_.loc);
  }

  Tensor& leaf_value(std::uint32_t leaf) { return value_of_leaf(scratch_, leaf); }
  Tensor& argument(std::size_t input) { return leaf_value(traced_.inputs[input]); }

  void read_symbols() {
    scratch_.symbols.clear();
    for (std::size_t i = 0; i < whole_.guards.symbols.size(); ++i)
      scratch_.symbols.push_back(whole_.guards.symbol_value(i, scratch_.words));
    scratch_.symbols.insert(scratch_.symbols.end(), scratch_.counts.begin(), scratch_.counts.end());
    if (s_.draws && !scratch_.generator.state) {
      refuse_held_generator(call_.loc);
      hold_generator(scratch_);
    }
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
    const bool symbolic = whole_.symbolic || !scratch_.counts.empty();
    if (symbolic)
      for (int axis = 0; axis < type.shape.rank(); ++axis)
        if (!type.shape[axis].is_constant()) type.shape[axis] = dims::evaluate(type.shape[axis], scratch_.symbols);
    if (symbolic) check_count("compile", type, call_.loc);
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
  Storage* donated(std::uint32_t donor, std::size_t bytes) {
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

  void run_plan(const Kernels& kernels) try {
    const runtime::Plan& plan = kernels.executable->plan;
    std::size_t count = traced_.inputs.size();
    scratch_.numbers.clear();
    scratch_.numbers.reserve(count);  // pointers into it stay
    scratch_.held.reserve(count);
    scratch_.argument_pointers.clear();
    scratch_.result_pointers.clear();
    for (std::size_t i = 0; i < count; ++i)
      scratch_.argument_pointers.push_back(traced_.inputs[i] == rounds_leaf ? &scratch_.rounds
                                                                            : pointer_to(argument(i)));
    bool checks_wait = kernels.checks_wait;
    for (std::size_t i = 0; i < s_.output_types.size(); ++i) {
      if (!kernels.answers.empty() && kernels.answers[i] >= 0 && !whole_.level) {
        scratch_.outputs.push_back({});
        scratch_.result_pointers.push_back(&scratch_.answers[kernels.answers[i]]);
        continue;
      }
      Type type = output_type(i);
      std::size_t bytes = storage_bytes(type.dtype, type.shape.element_count().constant());
      scratch_.outputs.push_back(make_computed(type, call_.loc));
      Storage*& storage = scratch_.outputs.back().node()->storage;
      storage = donated(kernels.donors[i], bytes);
      if (!storage) {
        storage = allocate(type.device, bytes);
        checks_wait = checks_wait && kernels.donors[i] == no_leaf;
      }
      scratch_.result_pointers.push_back(storage->data);
    }
    scratch_.constants.clear();
    for (const int i : plan.constant_arguments)
      scratch_.constants.push_back(reinterpret_cast<const void*>(argument(static_cast<std::size_t>(i)).word()));
    std::size_t read = 0;
    const std::span<Storage* const> all = blocks(plan, read);
    const bool replaces_state = !traced_.states.empty() || !traced_.numbers.empty();
    if (plan.device.type != Device::Type::cpu)
      note_device_call(all.first(read), all.subspan(read), checks_wait, replaces_state && !kernels.has_error_word);
    // From here on memory of the arguments may be written. What is left to allocate, arena and workspace, the plan
    // allocates before its first launch.
    runtime::run(plan, scratch_.argument_pointers, scratch_.result_pointers,
                 std::span(scratch_.symbols).first(static_cast<std::size_t>(plan.symbol_count)), nullptr, all,
                 checks_wait, {scratch_.constants, hold_constant, this});
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(beyond_memory(error, kernels.executable->plan).c_str());
  }

  // A value does not change, and its memory is no result's, as long as somebody has it.
  static std::shared_ptr<const void> hold_constant(const void* context, std::size_t constant) {
    const auto& call = *static_cast<const Execution*>(context);
    const auto& plan = call.s_.executable()->plan;
    const auto input = static_cast<std::size_t>(plan.constant_arguments[constant]);
    return std::make_shared<const Tensor>(value_of_leaf(call.scratch_, call.traced_.inputs[input]));
  }

  // What the call would have taken, and for which values.
  std::string beyond_memory(const OutOfMemory& error, const runtime::Plan& plan) const try {
    constexpr std::size_t most_owners = 3;
    const std::span symbols = std::span(scratch_.symbols).first(static_cast<std::size_t>(plan.symbol_count));
    const runtime::PlanMemory memory = runtime::memory_of(plan, symbols);
    std::string owners;
    for (const std::string& owner : runtime::owners_at_peak(memory, most_owners))
      owners += (owners.empty() ? ", at its peak " : "; ") + owner;
    return concat_text(error.what(), "; the call at ", to_string(call_.loc), " takes ",
                       runtime::bytes_text(memory.taken()), " beside its arguments (temporaries ",
                       runtime::bytes_text(memory.temporaries), ", results ", runtime::bytes_text(memory.results),
                       ", workspace ", runtime::bytes_text(memory.workspace), ")", owners);
  } catch (const std::exception&) {  // no memory for words
    return error.what();
  }

  // What the pointers look into on devices, where the plan's work is queued: `read` of arguments, then of results.
  std::span<Storage* const> blocks(const runtime::Plan& plan, std::size_t& read) {
    scratch_.blocks.clear();
    if (plan.device.type == Device::Type::cpu) return {};
    const auto add = [&](Storage* storage) {
      if (!storage) return;
      if (plan.parts ? storage->device.type != Device::Type::cpu : storage->device == plan.device)
        scratch_.blocks.push_back(storage);
    };
    for (std::size_t i = 0; i < traced_.inputs.size(); ++i) add(storage_of(argument(i)));
    for (Storage* storage : scratch_.held) add(storage);
    read = scratch_.blocks.size();
    for (const Tensor& output : scratch_.outputs)
      if (output.defined()) add(storage_of(output));
    return scratch_.blocks;
  }

  void run_graph() {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < traced_.inputs.size(); ++i) inputs.push_back(argument(i));
    if (s_.registered) {
      std::vector<Type> types;
      for (std::size_t i = 0; i < s_.output_types.size(); ++i) types.push_back(output_type(i));
      give(s_.registered->run(inputs, scratch_.symbols, types, call_.loc));
      return;
    }
    give(replay(traced_.graph, inputs, scratch_.symbols, s_.backend == Backend::reference ? s_.backend : Backend::eager,
                call_.loc));
  }

  void give(std::vector<Tensor> outputs) {
    scratch_.outputs.assign(std::make_move_iterator(outputs.begin()), std::make_move_iterator(outputs.end()));
  }

  Tensor value_of(const Source& source) {
    switch (source.kind) {
      case Source::Kind::computed: return scratch_.outputs[source.index];
      case Source::Kind::argument: return leaf_value(source.index);
      default: return Tensor();
    }
  }

  // Results and state get their tensors: nothing here can fail. A dry run leaves state as it is.
  void hand_out() {
    scratch_.values.clear();
    for (const Source& source : traced_.results) scratch_.values.push_back(value_of(source));
    if (is_dry_run) return void(hand_out_results());
    for (const StateTensor& state : traced_.states) scratch_.values.push_back(value_of(state.source));
    if (traced_.generator.kind != Source::Kind::undefined) *scratch_.generator.state = value_of(traced_.generator);
    std::size_t next = hand_out_results();
    for (const StateTensor& state : traced_.states)
      scratch_.arguments.leaves[state.leaf].tensor() = std::move(scratch_.values[next++]);
    for (const StateNumbers& numbers : scratch_.resumed ? scratch_.state_numbers : traced_.numbers)
      std::memcpy(scratch_.arguments.leaves[numbers.leaf].address, numbers.bytes.data(),
                  std::min<std::size_t>(scratch_.arguments.leaves[numbers.leaf].size, numbers.bytes.size()));
  }

  // How many there are.
  std::size_t hand_out_results() {
    std::size_t next = 0;
    for (const Leaf& leaf : scratch_.results.leaves)
      if (holds_tensor(leaf.kind)) leaf.tensor() = std::move(scratch_.values[next++]);
    return next;
  }

  CallContext call_;
  const Specialization& whole_;
  const Segment& s_;
  const TraceResult& traced_;
  Scratch& scratch_;
};

}  // namespace

bool hold_generator(Scratch& scratch) {
  if (scratch.generator.state) return true;
  refuse_held_generator(recorder().loc);
  scratch.generator = hold_default_generator();
  const Tensor& state = *scratch.generator.state;
  if (scratch.generator_state.defined() && !scratch.generator_state.same(state)) return false;
  scratch.generator_state = state;
  return true;
}

void run_to_results(CallContext call, const Specialization& specialization, const Segment& segment) {
  Execution(call, specialization, segment).run();
}
std::vector<Tensor> run_to_values(CallContext call, const Specialization& specialization, const Segment& segment) {
  return Execution(call, specialization, segment).values();
}
void keep_for_first(CallContext call, const FirstRound& first) {
  Scratch& scratch = call.scratch;
  scratch.values.clear();
  for (const FirstKept& each : first.kept)
    scratch.values.push_back(each.constant.defined() ? each.constant : value_of_leaf(scratch, each.leaf));
  scratch.kept.swap(scratch.values);
  scratch.values.clear();
}
std::int64_t run_to_decision(CallContext call, const Specialization& specialization, const Segment& segment) {
  return Execution(call, specialization, segment).decide();
}

}  // namespace weft::detail
