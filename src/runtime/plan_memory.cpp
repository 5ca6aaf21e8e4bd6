#include "runtime/plan_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <numeric>

#include "base/fail.hpp"
#include "runtime/plan_parts.hpp"
#include "runtime/transfer.hpp"

namespace weft::runtime {

namespace {

// Of a plan in parts: a part is a step, whose own values are one.
PlanMemory memory_of_parts(const Plan& plan, std::span<const std::int64_t> symbols) {
  const PlanParts& parts = *plan.parts;
  PlanMemory memory;
  memory.live.assign(parts.parts().size(), 0);
  const auto add = [&](PlanMemory::Value value) {
    for (std::size_t step = value.first; step <= value.last; ++step) memory.live[step] += value.bytes;
    memory.values.push_back(std::move(value));
  };
  std::vector<bool> in_place(static_cast<std::size_t>(plan.result_count), false);
  for (const Plan::Donation& donation : plan.donations) in_place[static_cast<std::size_t>(donation.result)] = true;
  for (std::size_t v = 0; v < parts.values().size(); ++v) {
    const PartValue& value = parts.values()[v];
    const std::int64_t bytes = storage_bytes(value.dtype, dims::evaluate(value.elements, symbols));
    const auto [first, last] = parts.life_of(v);
    switch (value.kind) {
      case PartValue::Kind::argument: memory.arguments += bytes; break;
      case PartValue::Kind::temporary:
        memory.temporaries += bytes;
        add({bytes, first, last, -1, 0, value.what});
        break;
      case PartValue::Kind::result:
        if (in_place[static_cast<std::size_t>(value.index)]) break;
        memory.results += bytes;
        add({bytes, 0, parts.parts().size() - 1, value.index, 0, value.what});
        break;
    }
  }
  std::map<int, std::int64_t> arenas;
  for (std::size_t p = 0; p < parts.parts().size(); ++p) {
    const Plan* const part = parts.parts()[p].plan.get();
    if (!part) continue;
    const PlanMemory own = memory_of(*part, symbols);
    arenas[part->device.index] = std::max(arenas[part->device.index], own.temporaries);  // parts of a device share one
    memory.workspace += own.workspace;
    memory.constants += own.constants;
    memory.offloaded += own.offloaded;
    if (own.temporaries > 0)
      add({own.temporaries, p, p, -1, 0, concat_text("part ", p, " on cuda:", static_cast<int>(part->device.index))});
  }
  for (const auto& [device, bytes] : arenas) memory.temporaries += bytes;
  memory.peak =
      static_cast<std::size_t>(std::max_element(memory.live.begin(), memory.live.end()) - memory.live.begin());
  return memory;
}

}  // namespace

std::size_t arena_bytes(const Plan& plan, std::span<const std::int64_t> symbols) {
  return static_cast<std::size_t>(dims::evaluate(plan.arena_bytes, symbols));
}

PlanMemory memory_of(const Plan& plan, std::span<const std::int64_t> symbols) {
  if (plan.parts) return memory_of_parts(plan, symbols);
  using Kind = PlanBuffer::Kind;
  PlanMemory memory;
  memory.temporaries = dims::evaluate(plan.arena_bytes, symbols);
  memory.workspace = static_cast<std::int64_t>(workspace_bytes(plan, symbols));
  for (const auto& constant : plan.constants) memory.constants += static_cast<std::int64_t>(constant.size());
  const std::size_t steps = plan.launches.size();
  std::vector<bool> in_place(static_cast<std::size_t>(plan.result_count), false);
  for (const Plan::Donation& donation : plan.donations) in_place[static_cast<std::size_t>(donation.result)] = true;
  std::vector<int> value_of(plan.buffers.size(), -1), of_result(in_place.size(), -1);
  std::vector<bool> counted(static_cast<std::size_t>(plan.argument_count), false);
  std::vector<std::vector<std::size_t>> known_by(plan.buffers.size());  // by buffer of the host: steps
  const auto add = [&](std::size_t b, std::size_t step) {
    const PlanBuffer& buffer = plan.buffers[b];
    const std::int64_t bytes = storage_bytes(buffer.dtype, dims::evaluate(buffer.elements, symbols));
    const auto index = static_cast<std::size_t>(buffer.index);
    if (buffer.kind == Kind::argument && !counted[index]) counted[index] = true, memory.arguments += bytes;
    if (is_on_host(buffer)) {
      if (known_by[b].empty()) memory.offloaded += bytes;
      known_by[b].push_back(step);
      return;
    }
    const bool is_result = buffer.kind == Kind::result;
    if (buffer.kind != Kind::temporary && (!is_result || in_place[index])) return;
    if (buffer.in_result >= 0) return;  // the result is in memory anyway
    int& value = is_result ? of_result[index] : value_of[b];
    if (value < 0) {
      value = static_cast<int>(memory.values.size());
      memory.values.push_back({bytes, step, step, is_result ? buffer.index : -1,
                               is_result ? 0 : dims::evaluate(buffer.offset, symbols), buffer.what});
    }
    PlanMemory::Value& it = memory.values[static_cast<std::size_t>(value)];
    it.last = step;
  };
  for (std::size_t s = 0; s < steps; ++s)
    for (const int b : plan.launches[s].buffers) add(static_cast<std::size_t>(b), s);
  for (const std::vector<std::size_t>& known : known_by) {
    if (known.empty()) continue;
    const auto on_device = static_cast<std::size_t>(plan.launches[known.front()].buffers.front());
    const int value = value_of[on_device];
    if (value < 0) continue;
    memory.values[static_cast<std::size_t>(value)].leaves_at = known[1];
    memory.values[static_cast<std::size_t>(value)].returns_at = known[2];
  }
  // What is written where an operand lay takes no more memory in that step.
  std::map<std::pair<std::int64_t, std::size_t>, std::size_t> ended;  // by offset and last step
  for (std::size_t v = 0; v < memory.values.size(); ++v) {
    PlanMemory::Value& value = memory.values[v];
    if (value.result >= 0) continue;
    const auto before = ended.find({value.offset, value.first});
    ended[{value.offset, value.last}] = v;
    if (before == ended.end()) continue;
    PlanMemory::Value& operand = memory.values[before->second];
    if (operand.last > operand.first) --operand.last;
  }
  std::vector<std::int64_t> change(steps + 1, 0);
  for (PlanMemory::Value& value : memory.values) {
    if (value.result >= 0) {  // allocated before the first step, and the caller's afterwards
      memory.results += value.bytes;
      value.first = 0, value.last = steps - 1;
    }
    change[value.first] += value.bytes;
    change[value.last + 1] -= value.bytes;
    if (value.returns_at == value.leaves_at) continue;
    change[value.leaves_at + 1] -= value.bytes;
    change[value.returns_at] += value.bytes;
  }
  std::partial_sum(change.begin(), change.end() - 1, std::back_inserter(memory.live));
  if (steps > 0)
    memory.peak =
        static_cast<std::size_t>(std::max_element(memory.live.begin(), memory.live.end()) - memory.live.begin());
  return memory;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < std::size(units); ++unit) number /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", number, units[unit]);
  return text;
}

std::vector<std::string> owners_at_peak(const PlanMemory& memory, std::size_t most) {
  std::vector<const PlanMemory::Value*> live;
  for (const PlanMemory::Value& value : memory.values)
    if (value.first <= memory.peak && memory.peak <= value.last &&
        !(value.leaves_at < memory.peak && memory.peak < value.returns_at))
      live.push_back(&value);
  std::ranges::stable_sort(live, std::greater{}, &PlanMemory::Value::bytes);
  std::vector<std::string> lines;
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const PlanMemory::Value& value = *live[i];
    if (i >= most)
      rest += value.bytes;
    else
      lines.push_back(concat_text(bytes_text(value.bytes), " ", value.result >= 0 ? "result: " : "", value.what,
                                  ", steps ", value.first, " to ", value.last));
  }
  if (rest > 0) lines.push_back(concat_text(bytes_text(rest), " in ", live.size() - most, " more"));
  return lines;
}

}  // namespace weft::runtime
