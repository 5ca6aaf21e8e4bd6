#include "schedule/epilogues.hpp"

#include <algorithm>

namespace weft {

namespace {

bool names(const Step& step, int buffer) { return std::ranges::find(step.buffers, buffer) != step.buffers.end(); }
bool names_any(const Step& step, const std::vector<int>& buffers) {
  return std::ranges::any_of(buffers, [&](int buffer) { return names(step, buffer); });
}

// What the step writes, or what it reads.
std::vector<int> buffers_of(const Step& step, bool written) {
  const std::vector<bool> writes = step.payload->writes(step.buffers.size());
  std::vector<int> all;
  for (std::size_t i = 0; i < writes.size(); ++i)
    if (writes[i] == written) all.push_back(step.buffers[i]);
  return all;
}

Step joined(const Step& first, const Step& second, std::shared_ptr<const Payload> payload, std::vector<int> buffers) {
  Step both{first.name + "_" + second.name, std::move(buffers), std::move(payload), first.operations, first.regions};
  both.operations.insert(both.operations.end(), second.operations.begin(), second.operations.end());
  for (const std::uint32_t region : second.regions)
    if (std::ranges::find(both.regions, region) == both.regions.end()) both.regions.push_back(region);
  return both;
}

// The step that does both, which takes the follower's place; it reads what both read.
bool join_follower(Schedule& schedule, std::size_t product, const Providers& providers, Device device) {
  std::vector<Step>& steps = schedule.steps;
  if (steps[product].buffers.empty() || steps[product].payload->generated()) return false;
  const std::vector<int> made = buffers_of(steps[product], true);
  bool keeps = false;
  for (const int each : made) {
    const ScheduleBuffer& buffer = schedule.buffers[static_cast<std::size_t>(each)];
    const bool is_result = buffer.kind == ScheduleBuffer::Kind::result;
    if (!is_result && buffer.kind != ScheduleBuffer::Kind::temporary) return false;
    keeps |= is_result;
  }
  std::size_t follower = product + 1;
  while (follower < steps.size() && !names_any(steps[follower], made)) ++follower;
  if (follower == steps.size() || !steps[follower].payload->kernel()) return false;
  for (std::size_t later = follower + 1; later < steps.size() && !keeps; ++later) keeps = names_any(steps[later], made);
  std::optional<Followed> both = providers.followed(steps[product], steps[follower], keeps, device);
  if (!both) return false;
  steps[follower] = joined(steps[product], steps[follower], std::move(both->payload), std::move(both->buffers));
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(product));
  return true;
}

// The step that does both, which takes the first one's place.
bool join_later(Schedule& schedule, std::size_t first, std::size_t later, const Providers& providers) {
  std::vector<Step>& steps = schedule.steps;
  std::shared_ptr<Payload> payload = providers.joined(steps[first], steps[later]);
  if (!payload) return false;
  const std::vector<int> read = buffers_of(steps[later], false);
  for (std::size_t between = first; between < later; ++between)
    for (const int each : buffers_of(steps[between], true))
      if (std::ranges::find(read, each) != read.end()) return false;
  std::vector<int> buffers = steps[first].buffers;
  buffers.insert(buffers.end(), steps[later].buffers.begin(), steps[later].buffers.end());
  steps[first] = joined(steps[first], steps[later], std::move(payload), std::move(buffers));
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(later));
  return true;
}

}  // namespace

void join_products(Schedule& schedule, const Providers& providers, Device device) {
  if (device.type == Device::Type::cpu) return;
  std::vector<Step>& steps = schedule.steps;
  const auto may_join = [&](std::size_t step) {
    return !steps[step].payload->generated() && !steps[step].buffers.empty();
  };
  for (std::size_t first = 0; first < steps.size(); ++first) {
    if (!may_join(first)) continue;
    for (std::size_t later = first + 1; later < steps.size();)
      if (!may_join(later) || steps[first].buffers[0] != steps[later].buffers[0] ||
          !join_later(schedule, first, later, providers))
        ++later;
  }
}

void join_epilogues(Schedule& schedule, const Providers& providers, Device device) {
  if (device.type == Device::Type::cpu) return;
  for (std::size_t step = 0; step < schedule.steps.size();)
    if (!join_follower(schedule, step, providers, device)) ++step;
}

}  // namespace weft
