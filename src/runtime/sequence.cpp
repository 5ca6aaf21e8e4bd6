#include "runtime/sequence.hpp"

#include <algorithm>
#include <array>

#include "base/fail.hpp"
#include "runtime/idle.hpp"
#include "runtime/processes/collective_step.hpp"
#include "runtime/transfer.hpp"

namespace weft::runtime {

Sequence::Sequence(const Plan& plan, NumberTable& numbers, bool in_results)
    : device_(plan.device), functions_(plan.functions), buffers_(plan.buffers), launches_(plan.launches) {
  const DeviceInterface& memory = device_interface(device_.type);
  for (const std::vector<std::byte>& constant : plan.constants) {
    constants_.emplace_back(allocate(device_, constant.size()), release);
    if (!constant.empty())
      memory.copy(constants_.back()->data, device_, constant.data(), Device::cpu(), constant.size(), nullptr);
  }
  if (!constants_.empty()) memory.synchronize(device_);  // the bytes of constants may go with the plan
  arena_bytes_ = numbers.add({plan.arena_bytes});
  Dim host_bytes = 0;  // they lie there one after the other
  for (const PlanBuffer& buffer : buffers_) {
    if (is_on_host(buffer)) host_bytes = buffer.offset + storage_bytes(info(buffer.dtype), buffer.elements);
    offsets_.push_back(numbers.add({buffer.offset}));
    elements_.push_back(numbers.add({buffer.elements}));
  }
  host_bytes_ = numbers.add({host_bytes});
  for (const Launch& launch : plan.launches) add(launch, numbers);
  if (wants_workspace_ && in_results) vacancies_ = find_vacancies(launches_, buffers_, plan.donations);
}

void Sequence::add(const Launch& launch, NumberTable& numbers) {
  ReadyStep ready;
  ready.table = table_.size();
  for (const int buffer : launch.buffers) {
    const PlanBuffer& it = buffers_.at(static_cast<std::size_t>(buffer));
    if (!it.host && (it.kind == PlanBuffer::Kind::argument || it.kind == PlanBuffer::Kind::result))
      patches_.push_back({table_.size(), it.kind == PlanBuffer::Kind::result, it.index});
    if ((it.kind == PlanBuffer::Kind::argument || it.kind == PlanBuffer::Kind::result) &&
        std::ranges::find(table_, buffer) == table_.end())
      outside_.push_back(table_.size());
    if (it.in_result >= 0) lodgers_.push_back({table_.size(), it.in_result, it.offset.constant()});
    if (it.kind == PlanBuffer::Kind::error) errors_.push_back(table_.size());
    transfers_ = transfers_ || is_on_host(it);
    table_.push_back(buffer);
  }
  writes_.insert(writes_.end(), launch.writes.begin(), launch.writes.end());
  writes_.resize(table_.size(), true);
  WEFT_CHECK(launch.step, "step ", launch.name, " has nobody to run it");
  ready.step = launch.step->prepare({device_, numbers, functions_, launch.entry});
  ready.packs = dynamic_cast<const PackingStep*>(ready.step.get());
  wants_workspace_ = wants_workspace_ || ready.step->has_workspace();
  ready.workspace = numbers.add({0, 0, -1});
  collective_ = collective_ || ready.step->is_collective();
  steps_.push_back(std::move(ready));
}

void Sequence::settle(std::span<std::int64_t> numbers) const {
  for (const ReadyStep& step : steps_) step.step->settle(numbers);
}

std::vector<std::string> Sequence::collectives(std::span<const std::int64_t> numbers) const {
  std::vector<std::string> all;
  for (const ReadyStep& step : steps_)
    if (const auto* const does = dynamic_cast<const DoesCollectives*>(step.step.get()))
      for (std::string& each : does->collectives(numbers)) all.push_back(std::move(each));
  return all;
}

bool Sequence::fits(std::span<const std::int64_t> numbers, std::span<const Room> arguments,
                    std::span<const Room> results) const {
  constexpr std::int64_t error_word_bytes = sizeof(std::int32_t);
  const std::int64_t arena = numbers[arena_bytes_.begin];
  if (!Reach::is_size(arena)) return false;
  std::vector<Room> rooms;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    rooms.clear();
    for (std::size_t i = steps_[s].table; i < end_of(s); ++i) {
      const auto b = static_cast<std::size_t>(table_[i]);
      const PlanBuffer& buffer = buffers_[b];
      const auto index = static_cast<std::size_t>(buffer.index);
      Room within;
      std::int64_t at = 0;
      switch (buffer.kind) {
        case PlanBuffer::Kind::argument: within = arguments[index], within.may_write = false; break;
        case PlanBuffer::Kind::result: within = results[index]; break;
        case PlanBuffer::Kind::constant:
          within = {static_cast<std::int64_t>(constants_[index]->bytes), 64, /*may_write=*/false};
          break;
        case PlanBuffer::Kind::temporary:
          within = buffer.in_result < 0 ? Room{arena} : results[static_cast<std::size_t>(buffer.in_result)];
          at = numbers[offsets_[b].begin];
          break;
        case PlanBuffer::Kind::error: within = {error_word_bytes}; break;
      }
      const std::int64_t elements = numbers[elements_[b].begin];
      // What lies on the host and is no temporary is staged: it has as much memory on the device.
      if (is_on_host(buffer) || !Reach::is_size(elements) || !Reach::is_size(at) || at % within.alignment != 0)
        return false;
      const auto bytes = static_cast<std::int64_t>(storage_bytes(buffer.dtype, elements));
      if (at > within.bytes || bytes > within.bytes - at || (writes_[i] && !within.may_write)) return false;
      rooms.push_back({bytes, within.alignment, within.may_write});
    }
    if (!steps_[s].step->fits(numbers, rooms)) return false;
  }
  return true;
}

std::size_t Sequence::workspace(std::span<const std::int64_t> numbers) const {
  std::size_t bytes = 0;
  for (const ReadyStep& step : steps_)
    if (step.step->has_workspace()) bytes = std::max(bytes, step.step->workspace(numbers));
  return bytes;
}

std::size_t Sequence::place_workspaces(std::span<std::int64_t> numbers) const {
  constexpr std::int64_t least_room = 4096;
  struct Memory {
    int result;  // -1: the arena
    int first;   // the step that writes it
    Gaps gaps;
  };
  const auto bytes_of = [&](std::size_t b) -> std::int64_t {
    return static_cast<std::int64_t>(storage_bytes(buffers_[b].dtype, numbers[elements_[b].begin]));
  };
  std::int64_t arena = numbers[arena_bytes_.begin];
  std::vector<Memory> memories{{-1, static_cast<int>(steps_.size()), Gaps(arena, workspace_alignment(device_))}};
  for (const Vacancy& vacancy : vacancies_)
    if (bytes_of(vacancy.buffer) >= least_room)
      memories.push_back({vacancy.result, vacancy.first, Gaps(bytes_of(vacancy.buffer), workspace_alignment(device_))});
  std::vector<int> last(buffers_.size(), 0);
  for (std::size_t s = 0; s < steps_.size(); ++s)
    for (std::size_t i = steps_[s].table; i < end_of(s); ++i)
      last[static_cast<std::size_t>(table_[i])] = static_cast<int>(s);
  std::vector<bool> seen(buffers_.size(), false);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const auto now = static_cast<int>(s);
    for (Memory& memory : memories) memory.gaps.forget_before(now);
    for (std::size_t i = steps_[s].table; i < end_of(s); ++i) {
      const auto b = static_cast<std::size_t>(table_[i]);
      if (seen[b] || buffers_[b].kind != PlanBuffer::Kind::temporary || is_on_host(buffers_[b])) continue;
      seen[b] = true;
      for (Memory& memory : memories)
        if (memory.result == buffers_[b].in_result)
          memory.gaps.hold(numbers[offsets_[b].begin], bytes_of(b), {now, last[b]});
    }
    const std::int64_t bytes =
        steps_[s].step->has_workspace() ? static_cast<std::int64_t>(steps_[s].step->workspace(numbers)) : 0;
    std::int64_t at = -1;
    int in_result = -1;
    for (std::size_t m = 0; m < memories.size() && bytes > 0 && at < 0; ++m)
      if (now < memories[m].first) at = memories[m].gaps.take(bytes, {now, now}), in_result = memories[m].result;
    if (at < 0) at = memories[0].gaps.find(bytes, {now, now}), in_result = -1;  // the arena grows
    if (in_result < 0) arena = std::max(arena, at + bytes);
    std::ranges::copy(std::array<std::int64_t, 3>{at, bytes, in_result},
                      numbers.begin() + static_cast<std::ptrdiff_t>(steps_[s].workspace.begin));
  }
  return static_cast<std::size_t>(arena);
}

void Sequence::place(std::span<void*> pointers, std::span<const std::int64_t> numbers, std::byte* arena,
                     std::byte* host_arena) const {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const auto index = static_cast<std::size_t>(table_[i]);
    const PlanBuffer& buffer = buffers_[index];
    if (buffer.kind == PlanBuffer::Kind::constant)
      pointers[i] = constants_[static_cast<std::size_t>(buffer.index)]->data;
    if (buffer.kind == PlanBuffer::Kind::temporary && buffer.in_result < 0 && !buffer.host)
      pointers[i] = arena ? arena + numbers[offsets_[index].begin] : nullptr;
    if (is_on_host(buffer)) pointers[i] = host_arena ? host_arena + numbers[offsets_[index].begin] : nullptr;
  }
}

void Sequence::bind(std::span<void*> pointers, std::span<void* const> arguments, std::span<void* const> results) const {
  for (const Patch& patch : patches_)
    pointers[patch.at] = patch.is_result ? results[static_cast<std::size_t>(patch.index)]
                                         : arguments[static_cast<std::size_t>(patch.index)];
  for (const Lodger& lodger : lodgers_)
    pointers[lodger.at] = static_cast<std::byte*>(results[static_cast<std::size_t>(lodger.result)]) + lodger.offset;
  if (errors_.empty()) return;
  void* const error_word = device_interface(device_.type).error_word(device_);
  for (const std::size_t at : errors_) pointers[at] = error_word;
}

std::vector<std::size_t> Sequence::moved_steps(std::span<void* const> before, std::span<void* const> now) const {
  std::vector<std::size_t> moved;
  const bool workspace = before[table_.size()] != now[table_.size()];
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const std::size_t first = steps_[s].table, count = end_of(s) - first;
    if ((workspace && steps_[s].step->has_workspace()) ||
        !std::ranges::equal(before.subspan(first, count), now.subspan(first, count)))
      moved.push_back(s);
  }
  return moved;
}

// Temporaries lie in the plan's own memory or in a result, constants and the error word in memory of their own.
bool Sequence::share_alike(std::span<void* const> before, std::span<void* const> now,
                           std::span<const std::int64_t> numbers) const {
  const auto bytes_at = [&](std::size_t place) {
    const auto buffer = static_cast<std::size_t>(table_[place]);
    return static_cast<std::intptr_t>(storage_bytes(buffers_[buffer].dtype, numbers[elements_[buffer].begin]));
  };
  const auto distance = [](std::span<void* const> pointers, std::size_t a, std::size_t b) {
    return reinterpret_cast<std::intptr_t>(pointers[b]) - reinterpret_cast<std::intptr_t>(pointers[a]);
  };
  for (const std::size_t a : outside_) {
    if (before[a] == now[a]) continue;
    for (const std::size_t b : outside_) {
      const std::intptr_t was = distance(before, a, b), is = distance(now, a, b), after = bytes_at(a),
                          ahead = -bytes_at(b);
      const bool shared = ahead < was && was < after, shares = ahead < is && is < after;
      if ((shared || shares) && was != is) return false;
    }
  }
  return true;
}

std::vector<std::vector<Touched>> Sequence::touched(std::span<void* const> pointers,
                                                    std::span<const std::int64_t> numbers) const {
  std::vector<std::vector<Touched>> all(steps_.size());
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const auto* const may_be_idle = dynamic_cast<const MayBeIdle*>(steps_[s].step.get());
    if (may_be_idle && may_be_idle->is_idle({pointers.data() + steps_[s].table, numbers, {}, nullptr})) {
      all[s].push_back(by_idle);
      continue;
    }
    for (std::size_t i = steps_[s].table; i < end_of(s); ++i) {
      const auto index = static_cast<std::size_t>(table_[i]);
      const auto begin = reinterpret_cast<std::uintptr_t>(pointers[i]);
      const std::size_t bytes = storage_bytes(buffers_[index].dtype, numbers[elements_[index].begin]);
      if (begin != 0) all[s].push_back({begin, begin + bytes, writes_[i]});
    }
    // A workspace is one step's at a time.
    if (steps_[s].step->has_workspace()) all[s].push_back({0, 1, true});
    if (steps_[s].step->is_collective()) all[s].push_back(by_collectives);
  }
  return all;
}

}  // namespace weft::runtime
