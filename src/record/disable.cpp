// disable(): a part of a compiled function that runs as plain C++ in each call.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/per_thread.hpp"
#include "base/storage.hpp"
#include "ir/node_numbers.hpp"
#include "record/composite.hpp"
#include "record/disable.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/unknown_values.hpp"
#include "weft/effects.hpp"

namespace weft {

OutsideLevel::OutsideLevel(std::uint64_t start) : start_(start) { open_level(start); }
OutsideLevel::~OutsideLevel() { close_level(start_); }

// Memory of the host, or of a device, as a value of the trace that each call gives anew.
Tensor entered(const Tensor& outside, Loc loc) {
  Trace& trace = *recorder().trace();
  const Type type = type_of(outside);
  Contiguous memory{};
  {
    const OutsideTraces none;
    memory = contiguous(outside, loc);
  }
  if (memory.offset != 0) {
    const std::size_t bytes = storage_bytes(type.dtype, type.shape.element_count().constant());
    Storage* const copy = allocate(type.device, bytes);
    const std::byte* const from =
        static_cast<const std::byte*>(memory.storage->data) + storage_bytes(type.dtype, memory.offset);
    device_interface(type.device.type).copy(copy->data, type.device, from, type.device, bytes, copy->queue);
    release(memory.storage);
    memory.storage = copy;
  }
  const Tensor value = make_data(memory.storage, type, loc);
  value.node()->trace = trace.id;
  ++trace.recorded;
  trace.decider->host_data(value, "disable", loc);
  return value;
}

namespace {
// Of the traces that the thread records, by trace and node.
struct Tapes {
  std::map<std::pair<std::uint32_t, const Node*>, DisabledTape> all;
};
}  // namespace

static void refuse_body(const CallValues&, std::span<Tensor>) {
  WEFT_CHECK(false, "a disabled call is differentiated as one that is compiled");
}

std::vector<Tensor> with_tape(DisabledTape tape, std::span<const Tensor> operands, std::span<const Tensor> results,
                              Loc loc) {
  WEFT_CHECK(operands.size() == tape.variables.size() && results.size() == tape.results.size(), "not of this tape");
  std::vector<Tensor> all(operands.begin(), operands.end()), given(results.size());
  all.insert(all.end(), results.begin(), results.end());
  const auto body = [&](std::span<const Tensor> inputs, std::span<Tensor> outputs) {
    std::ranges::copy(inputs.last(outputs.size()), outputs.begin());
  };
  // The name tells calls of other numbers of results apart, whose operands may have the same types.
  composite(called(concat_text("disabled_", results.size())), all, given, loc, body, refuse_body);
  per_thread<Tapes>().all.emplace(std::pair(recorder().trace()->id, given[0].node()), std::move(tape));
  return given;
}

const DisabledTape* disabled_tape(const Node& node) {
  const Callee* const callee = node.callee();
  if (!callee || callee->derivative != refuse_body) return nullptr;
  const auto& tapes = per_thread<Tapes>().all;
  const auto found = tapes.find({node.trace, &node});
  WEFT_CHECK(found != tapes.end(), "a disabled call of another trace is differentiated");
  return &found->second;
}

void drop_tapes(std::uint32_t trace) {
  auto& tapes = per_thread<Tapes>().all;
  if (!tapes.empty()) std::erase_if(tapes, [&](const auto& each) { return each.first.first == trace; });
}

}  // namespace weft

namespace weft::detail {

struct DisabledCall::State {
  Trace& trace;
  Loc loc;
  std::optional<OutsideTraces> outside = {};
  std::unordered_map<std::uint64_t, Tensor> original = {};  // by handle of its value outside of the trace
  std::vector<Tensor> values = {};                          // they keep these handles
  // Of arguments that depend on what is differentiated, with these as values of the trace.
  std::optional<DisabledTape> tape = {};
  std::vector<Tensor> differentiated = {};
};

namespace {

// Whether the value depends on a variable of a level that began then. What was computed apart from a level's values
// counts: its derivative says so.
bool is_differentiated(const Tensor& value, std::uint64_t level) {
  if (level == UINT64_MAX) return false;
  EvaluationLock lock;  // evaluation drops operands
  lock.cover_all();
  std::vector<const Node*> open;
  NodeNumbers met;
  const auto visit = [&](const Tensor& each) {
    Node* const node = each.node();
    if (node->sequence >= level && is_floating(type_of(each).dtype) && met.set(node, 0)) open.push_back(node);
  };
  visit(value);
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    if (node.op == Op::variable || node.severed) return true;
    if (node.op == Op::stop_gradient) continue;
    for (const Tensor& operand : node.inputs()) visit(operand);
  }
  return false;
}

}  // namespace

DisabledCall::DisabledCall(Loc loc) : state_(nullptr) {
  Trace* const trace = recorder().trace();
  if (!trace) return;
  if (recorder().loc.file) loc = recorder().loc;
  note_call(loc);
  if (!trace->decider)
    fail("disable", loc, "a disabled function runs on values, and there are none ", where_values_are_unknown());
  state_ = new State{*trace, loc};
}
DisabledCall::~DisabledCall() { delete state_; }

void DisabledCall::leave(const LeafList& arguments) {
  if (!state_) return;
  std::vector<Tensor*> places;
  for (const Leaf& leaf : arguments.leaves)
    if (holds_tensor(leaf.kind) && leaf.tensor().defined()) places.push_back(&leaf.tensor());
  std::vector<bool> differentiated;
  for (const Tensor* place : places) {
    differentiated.push_back(is_differentiated(*place, recorder().level_start));
    state_->values.push_back(known_value("disable", *place, state_->loc));
  }
  // What the function returns may differ from call to call, whether it takes a tensor or not.
  if (places.empty()) known_value("disable", full({}, At(0, state_->loc)), state_->loc);
  const DType autocast = recorder().autocast;
  state_->outside.emplace();
  recorder().autocast = autocast;
  for (std::size_t i = 0; i < places.size(); ++i) {
    Tensor& value = state_->values[i];
    if (differentiated[i]) {
      value = record(Op::variable, {value}, {}, {}, state_->loc);
      if (!state_->tape) {
        recorder().level_start = value.node()->sequence;
        state_->tape.emplace(std::make_shared<const OutsideLevel>(recorder().level_start));
      }
      state_->tape->variables.push_back(value);
      state_->differentiated.push_back(*places[i]);
    }
    state_->original.emplace(value.word(), *places[i]);
    *places[i] = value;
  }
}

void DisabledCall::come_back() {
  if (state_) state_->outside.reset();
}

void DisabledCall::bring_back(const LeafList& leaves, bool threw) {
  if (!state_) return;
  std::vector<Tensor*> dependent;  // on what is differentiated
  std::vector<Tensor> values;
  for (const Leaf& leaf : leaves.leaves) {
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    Tensor& place = leaf.tensor();
    if (const auto found = state_->original.find(place.word()); found != state_->original.end()) {
      place = found->second;
    } else if (!threw && place.node()->trace != state_->trace.id) {
      Tensor value = entered(place, state_->loc);
      if (state_->tape && is_differentiated(place, state_->tape->level->start())) {
        dependent.push_back(&place);
        values.push_back(std::exchange(place, value));
      } else {
        place = std::move(value);
      }
    }
  }
  if (dependent.empty()) return;
  std::vector<Tensor> inside;
  for (const Tensor* place : dependent) inside.push_back(*place);
  inside = with_tape({state_->tape->level, state_->tape->variables, std::move(values)}, state_->differentiated, inside,
                     state_->loc);
  for (std::size_t i = 0; i < dependent.size(); ++i) *dependent[i] = inside[i];
}

}  // namespace weft::detail
