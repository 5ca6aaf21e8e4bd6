#include "runtime/sequence.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::runtime {

Sequence::Sequence(const Plan& plan, NumberTable& numbers)
    : device_(plan.device), functions_(plan.functions), buffers_(plan.buffers), launches_(plan.launches) {
  const DeviceInterface& memory = device_interface(device_.type);
  for (const std::vector<std::byte>& constant : plan.constants) {
    constants_.emplace_back(allocate(device_, constant.size()), release);
    if (!constant.empty())
      memory.copy(constants_.back()->data, device_, constant.data(), Device::cpu(), constant.size(), nullptr);
  }
  if (!constants_.empty()) memory.synchronize(device_);  // the bytes of constants may go with the plan
  arena_bytes_ = numbers.add({plan.arena_bytes});
  for (const PlanBuffer& buffer : buffers_) {
    checks_ = checks_ || buffer.kind == PlanBuffer::Kind::error;
    offsets_.push_back(numbers.add({buffer.offset}));
    elements_.push_back(numbers.add({buffer.elements}));
  }
  for (const Launch& launch : plan.launches) add(launch, numbers);
}

void Sequence::add(const Launch& launch, NumberTable& numbers) {
  ReadyStep ready;
  ready.table = table_.size();
  for (const int buffer : launch.buffers) {
    const PlanBuffer& it = buffers_.at(static_cast<std::size_t>(buffer));
    if (!it.host && (it.kind == PlanBuffer::Kind::argument || it.kind == PlanBuffer::Kind::result))
      patches_.push_back({table_.size(), it.kind == PlanBuffer::Kind::result, it.index});
    table_.push_back(buffer);
  }
  writes_.insert(writes_.end(), launch.writes.begin(), launch.writes.end());
  writes_.resize(table_.size(), true);
  WEFT_CHECK(launch.step, "step ", launch.name, " has nobody to run it");
  ready.step = launch.step->prepare({device_, numbers, functions_, launch.entry});
  wants_workspace_ = wants_workspace_ || ready.step->has_workspace();
  recordable_ = recordable_ && ready.step->can_be_recorded();
  steps_.push_back(std::move(ready));
}

std::size_t Sequence::workspace(std::span<const std::int64_t> numbers) const {
  std::size_t bytes = 0;
  for (const ReadyStep& step : steps_)
    if (step.step->has_workspace()) bytes = std::max(bytes, step.step->workspace(numbers));
  return bytes;
}

void Sequence::place(std::span<void*> pointers, std::span<const std::int64_t> numbers, std::byte* arena) const {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const auto index = static_cast<std::size_t>(table_[i]);
    const PlanBuffer& buffer = buffers_[index];
    if (buffer.kind == PlanBuffer::Kind::constant)
      pointers[i] = constants_[static_cast<std::size_t>(buffer.index)]->data;
    if (buffer.kind == PlanBuffer::Kind::error) pointers[i] = device_interface(device_.type).error_word(device_);
    if (buffer.kind == PlanBuffer::Kind::temporary)
      pointers[i] = arena ? arena + numbers[offsets_[index].begin] : nullptr;
  }
}

void Sequence::bind(std::span<void*> pointers, std::span<void* const> arguments, std::span<void* const> results) const {
  for (const Patch& patch : patches_)
    pointers[patch.at] = patch.is_result ? results[static_cast<std::size_t>(patch.index)]
                                         : arguments[static_cast<std::size_t>(patch.index)];
}

std::vector<std::vector<Touched>> Sequence::touched(std::span<void* const> pointers,
                                                    std::span<const std::int64_t> numbers) const {
  std::vector<std::vector<Touched>> all(steps_.size());
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const std::size_t end = s + 1 < steps_.size() ? steps_[s + 1].table : table_.size();
    for (std::size_t i = steps_[s].table; i < end; ++i) {
      const auto index = static_cast<std::size_t>(table_[i]);
      const auto begin = reinterpret_cast<std::uintptr_t>(pointers[i]);
      const std::size_t bytes = storage_bytes(buffers_[index].dtype, numbers[elements_[index].begin]);
      if (begin != 0) all[s].push_back({begin, begin + bytes, writes_[i]});
    }
    // A workspace is one step's at a time.
    if (steps_[s].step->has_workspace()) all[s].push_back({0, 1, true});
  }
  return all;
}

}  // namespace weft::runtime
