#include "runtime/loop.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "weft/error.hpp"

namespace weft::runtime {

namespace {

std::size_t aligned(std::size_t bytes, Device device) {
  const auto step = static_cast<std::size_t>(workspace_alignment(device));
  return (bytes + step - 1) / step * step;
}

}  // namespace

LoopStep::LoopStep(LoopDescription description, std::span<const Plan> bodies, NumberTable& numbers)
    : description_(std::move(description)), device_(bodies[0].device), length_(numbers.add({description_.length})) {
  for (const Plan& body : bodies) bodies_.emplace_back(body, numbers, /*in_results=*/false);
  arena_ = numbers.add({0});
  for (const LoopValue& value : description_.operands) operands_.push_back(numbers.add({value.offset, value.bytes}));
  for (const LoopValue& value : description_.results) results_.push_back(numbers.add({value.offset, value.bytes}));
}

std::vector<std::string> LoopStep::collectives(std::span<const std::int64_t> numbers) const {
  std::vector<std::string> all;
  const std::int64_t length = numbers[length_.begin];  // 0: not known
  for (const Sequence& body : bodies_)
    for (const std::string& each : body.collectives(numbers))
      all.push_back(length > 0 ? concat_text(each, ", ", counted(length, "time", "times")) : each + " in a loop");
  return all;
}

// Nothing else lies in the results of a body: one may be a slice, which begins anywhere.
void LoopStep::settle(std::span<std::int64_t> numbers) const {
  std::size_t bytes = 0;
  for (const Sequence& body : bodies_) {
    body.settle(numbers);
    bytes = std::max(bytes, aligned(body.place_workspaces(numbers), device_));
  }
  numbers[arena_.begin] = static_cast<std::int64_t>(bytes);
}

// The step's own buffers, a spare place for each carry, the tables of the bodies, and what these take and give.
std::size_t LoopStep::table_count() const {
  std::size_t count =
      2 * operands_.size() + results_.size() + std::max<std::size_t>(results_.size(), 1) + description_.carries;
  for (const Sequence& body : bodies_) count += body.pointers();
  return count;
}

// The arena of a body, a condition, a second place for each carry that is not updated where it is,
// and the tables.
std::size_t LoopStep::workspace(std::span<const std::int64_t> numbers) const {
  std::size_t bytes = static_cast<std::size_t>(numbers[arena_.begin]) + aligned(1, device_);
  if (device_.type == Device::Type::cpu) bytes += aligned(table_count() * sizeof(void*), device_);
  for (std::size_t k = 0; k < description_.carries; ++k)
    if (!description_.in_place[k]) bytes += aligned(static_cast<std::size_t>(numbers[operands_[k].begin + 1]), device_);
  return bytes;
}

LoopStep::Frame LoopStep::begin(const StepCall& call) const {
  const std::size_t operands = operands_.size(), results = results_.size();
  Frame frame{call, {}, {}, {}, {}, nullptr, nullptr, {}, {}, {}};
  std::byte* next = call.workspace.data();
  void** table = nullptr;
  if (device_.type == Device::Type::cpu) {
    table = reinterpret_cast<void**>(next);
    next += aligned(table_count() * sizeof(void*), device_);
  } else {
    frame.tables.resize(table_count());
    table = frame.tables.data();
  }
  const auto take = [&table](std::size_t count) { return std::span(std::exchange(table, table + count), count); };
  frame.operands = take(operands), frame.results = take(results), frame.spare = take(description_.carries);
  frame.arguments = take(operands), frame.given = take(std::max<std::size_t>(results, 1));
  for (std::size_t i = 0; i < operands + results; ++i) {
    const NumberTable::Range& range = i < operands ? operands_[i] : results_[i - operands];
    void*& first = i < operands ? frame.operands[i] : frame.results[i - operands];
    first = static_cast<std::byte*>(call.pointers[i]) + call.numbers[range.begin];
  }
  frame.arena = next, next += call.numbers[arena_.begin];
  frame.condition = next, next += aligned(1, device_);
  for (std::size_t k = 0; k < description_.carries; ++k) {
    frame.spare[k] = description_.in_place[k] ? nullptr : next;
    if (!description_.in_place[k]) next += aligned(static_cast<std::size_t>(operand_bytes(call, k)), device_);
  }
  WEFT_CHECK(next <= call.workspace.data() + call.workspace.size(), "the workspace of a loop");
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    frame.pointers[i] = take(bodies_[i].pointers());
    std::ranges::fill(frame.pointers[i], nullptr);
    bodies_[i].place(frame.pointers[i], call.numbers, frame.arena);
  }
  return frame;
}

void LoopStep::run_body(Frame& frame, std::size_t body) const {
  const std::span<void*> pointers = frame.pointers[body];
  bodies_[body].bind(pointers, frame.arguments, frame.given);
  bodies_[body].run(
      {pointers.data(), frame.call.numbers, {}, frame.call.queue, frame.call.checks_wait, frame.call.watch},
      frame.arena, frame.given);
}

void LoopStep::copy(const Frame& frame, void* to, const void* from, std::int64_t bytes) const {
  if (to != from && bytes > 0)
    device_interface(device_.type).copy(to, device_, from, device_, static_cast<std::size_t>(bytes), frame.call.queue);
}

bool LoopStep::read_condition(const Frame& frame, const void* value) const {
  if (device_.type == Device::Type::cpu) return *static_cast<const std::byte*>(value) != std::byte{0};
  std::byte read{0};
  const DeviceInterface& memory = device_interface(device_.type);
  memory.copy(&read, Device::cpu(), value, device_, 1, frame.call.queue);
  memory.synchronize(device_);
  return read != std::byte{0};
}

bool LoopStep::see(std::span<const std::int64_t> numbers, std::span<const Room> rooms, Seen& seen, std::int64_t length,
                   std::size_t first, std::size_t last, std::size_t stacked) const {
  // The last may be a device's error word, for a check in a body.
  const std::size_t own = operands_.size() + results_.size();
  if (rooms.size() != own && (device_.type == Device::Type::cpu || rooms.size() != own + 1)) return false;
  const auto look = [&](const NumberTable::Range& range, const Room& room, bool is_many, std::vector<Room>& to) {
    const std::int64_t offset = numbers[range.begin], bytes = numbers[range.begin + 1];
    if (!Reach(offset).along(is_many ? length : 1, bytes).along(bytes, 1).is_in(room, DType::u8)) return false;
    // As far as every slice is aligned.
    const std::int64_t places = offset | (is_many ? bytes : 0) | room.alignment;
    to.push_back({bytes, places & -places, room.may_write});
    return true;
  };
  for (std::size_t i = 0; i < operands_.size(); ++i)
    if (!look(operands_[i], rooms[i], i >= first && i < last, seen.operands)) return false;
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (!look(results_[i], rooms[operands_.size() + i], i >= stacked, seen.results)) return false;
  for (const Room& result : seen.results)
    if (!result.may_write) return false;
  // A carry is in the operand, in the result or in the workspace.
  for (std::size_t k = 0; k < description_.carries; ++k) {
    Room &before = seen.operands[k], &after = seen.results[k];
    if (before.bytes != after.bytes) return false;
    before.alignment = std::min(before.alignment, after.alignment);
  }
  return true;
}

bool ScanStep::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  const std::int64_t length = numbers[length_.begin];
  const std::size_t carries = description_.carries;
  Seen seen;
  return Reach::is_size(length) &&
         see(numbers, rooms, seen, length, carries, carries + description_.scanned, carries) &&
         bodies_[0].fits(numbers, seen.operands, seen.results);
}

bool WhileStep::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  Seen seen;
  if (!see(numbers, rooms, seen)) return false;
  const Room condition{static_cast<std::int64_t>(aligned(1, device_))};
  const bool asks = description_.asked >= 0 ? seen.operands[static_cast<std::size_t>(description_.asked)].bytes > 0
                                            : bodies_[0].fits(numbers, seen.operands, {&condition, 1});
  return asks && bodies_[1].fits(numbers, seen.operands, seen.results);
}

bool CondStep::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  Seen seen;
  if (!see(numbers, rooms, seen) || seen.operands[0].bytes < 1) return false;
  const std::span operands = std::span(seen.operands).subspan(1);
  return bodies_[0].fits(numbers, operands, seen.results) && bodies_[1].fits(numbers, operands, seen.results);
}

// A carry that is updated in place lies in the memory of the result throughout. Others go between that and the
// workspace, so that the last iteration writes the result.
void ScanStep::run(const StepCall& call) const {
  Frame frame = begin(call);
  const std::size_t carries = description_.carries, scanned = description_.scanned;
  const std::int64_t length = call.numbers[length_.begin];
  std::ranges::copy(frame.operands, frame.arguments.begin());
  std::ranges::copy(frame.results, frame.given.begin());
  for (std::size_t k = 0; k < carries; ++k) {
    void *const from = frame.operands[k], *const result = frame.results[k];
    const bool stays = description_.in_place[k] || length == 0;
    if (stays) copy(frame, result, from, operand_bytes(call, k));
    if (stays) frame.arguments[k] = result;
    if (stays || from != result || length % 2 == 0) continue;
    copy(frame, frame.spare[k], from, operand_bytes(call, k));
    frame.arguments[k] = frame.spare[k];
  }
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = description_.reverse ? length - 1 - i : i;
    for (std::size_t k = carries; k < carries + scanned; ++k)
      frame.arguments[k] = static_cast<std::byte*>(frame.operands[k]) + t * operand_bytes(call, k);
    for (std::size_t k = carries; k < frame.results.size(); ++k)
      frame.given[k] = static_cast<std::byte*>(frame.results[k]) + t * result_bytes(call, k);
    const bool into_result = (length - 1 - i) % 2 == 0;
    for (std::size_t k = 0; k < carries; ++k)
      if (!description_.in_place[k]) frame.given[k] = into_result ? frame.results[k] : frame.spare[k];
    run_body(frame, 0);
    for (std::size_t k = 0; k < carries; ++k) frame.arguments[k] = frame.given[k];
  }
}

void WhileStep::run(const StepCall& call) const {
  Frame frame = begin(call);
  const std::size_t carries = description_.carries;
  std::ranges::copy(frame.operands, frame.arguments.begin());
  for (std::size_t k = 0; k < carries; ++k)
    if (description_.in_place[k]) {
      copy(frame, frame.results[k], frame.operands[k], operand_bytes(call, k));
      frame.arguments[k] = frame.results[k];
    }
  for (std::int64_t i = 0;; ++i) {
    const void* condition = frame.condition;
    if (description_.asked >= 0) {
      condition = frame.arguments[static_cast<std::size_t>(description_.asked)];
    } else {
      frame.given[0] = frame.condition;
      run_body(frame, 0);
    }
    if (!read_condition(frame, condition)) break;
    if (description_.limit > 0 && i == description_.limit) throw Error(description_.passed.c_str());
    std::ranges::copy(frame.results, frame.given.begin());
    for (std::size_t k = 0; k < carries; ++k)
      if (!description_.in_place[k] && frame.arguments[k] == frame.results[k]) frame.given[k] = frame.spare[k];
    run_body(frame, 1);
    for (std::size_t k = 0; k < carries; ++k) frame.arguments[k] = frame.given[k];
  }
  for (std::size_t k = 0; k < carries; ++k) copy(frame, frame.results[k], frame.arguments[k], operand_bytes(call, k));
}

void CondStep::run(const StepCall& call) const {
  Frame frame = begin(call);
  std::ranges::copy(frame.operands.subspan(1), frame.arguments.begin());
  std::ranges::copy(frame.results, frame.given.begin());
  run_body(frame, read_condition(frame, frame.operands[0]) ? 0 : 1);
}

}  // namespace weft::runtime
