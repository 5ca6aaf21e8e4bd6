// disable(): a part of a compiled function that runs as plain C++ in each call.
#include <cstring>
#include <optional>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "ir/node_numbers.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/record.hpp"
#include "weft/effects.hpp"

namespace weft::detail {

struct DisabledCall::State {
  Trace& trace;
  Loc loc;
  std::optional<OutsideTraces> outside = {};
  std::unordered_map<std::uint64_t, Tensor> original = {};  // by handle of its value outside of the trace
  std::vector<Tensor> values = {};                          // they keep these handles
};

namespace {

// Whether a gradient that is open would go through the value.
bool is_differentiated(const Tensor& value) {
  const std::uint64_t level = recorder().level_start;
  std::vector<Tensor> open{value};
  NodeNumbers met;
  while (!open.empty()) {
    const Tensor each = open.back();
    open.pop_back();
    const Node& node = *each.node();
    if (node.sequence < level || !is_floating(type_of(each).dtype) || node.op == Op::stop_gradient) continue;
    if (node.op == Op::variable) return true;
    if (met.set(each.node(), 0)) open.insert(open.end(), node.inputs().begin(), node.inputs().end());
  }
  return false;
}

// Memory of the host, or of a device, as a value of the trace that each call gives anew.
Tensor entered(const Tensor& outside, Trace& trace, Loc loc) {
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
    weft::release(memory.storage);
    memory.storage = copy;
  }
  const Tensor value = make_data(memory.storage, type, loc);
  value.node()->trace = trace.id;
  ++trace.recorded;
  trace.decider->host_data(value, "disable", loc);
  return value;
}

}  // namespace

DisabledCall::DisabledCall(Loc loc) : state_(nullptr) {
  Trace* const trace = recorder().trace();
  if (!trace) return;
  if (recorder().loc.file) loc = recorder().loc;
  note_call(loc);
  if (!trace->decider)
    fail("disable", loc,
         "a disabled function reads values, which a loop's body and a function compiled with {.fullgraph = true} do "
         "not know");
  state_ = new State{*trace, loc};
}
DisabledCall::~DisabledCall() { delete state_; }

void DisabledCall::leave(const LeafList& arguments) {
  if (!state_) return;
  std::vector<const Leaf*> tensors;
  for (const Leaf& leaf : arguments.leaves) {
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    if (is_differentiated(leaf.tensor()))
      fail("disable", state_->loc, "an argument, ", to_string(type_of(leaf.tensor())),
           ", depends on what is differentiated, and no derivative goes through a disabled function: apply "
           "stop_gradient to it, or use host_call with a derivative");
    tensors.push_back(&leaf);
  }
  for (const Leaf* leaf : tensors) state_->values.push_back(known_value("disable", leaf->tensor(), state_->loc));
  // What the function returns may differ from call to call, whether it takes a tensor or not.
  if (tensors.empty()) known_value("disable", full({}, At(0, state_->loc)), state_->loc);
  state_->outside.emplace();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor& place = tensors[i]->tensor();
    state_->original.emplace(state_->values[i].word(), place);
    place = state_->values[i];
  }
}

void DisabledCall::come_back() {
  if (state_) state_->outside.reset();
}

void DisabledCall::bring_back(const LeafList& leaves, bool threw) {
  if (!state_) return;
  for (const Leaf& leaf : leaves.leaves) {
    if (!holds_tensor(leaf.kind) || !leaf.tensor().defined()) continue;
    Tensor& place = leaf.tensor();
    if (const auto found = state_->original.find(place.word()); found != state_->original.end())
      place = found->second;
    else if (!threw && place.node()->trace != state_->trace.id)
      place = entered(place, state_->trace, state_->loc);
  }
}

}  // namespace weft::detail
