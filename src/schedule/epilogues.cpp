#include "schedule/epilogues.hpp"

#include <algorithm>

namespace weft {

namespace {

bool names(const Step& step, int buffer) { return std::ranges::find(step.buffers, buffer) != step.buffers.end(); }

// The step that does both, which takes the follower's place; it reads what both read.
bool join(Schedule& schedule, std::size_t product, const Providers& providers, Device device) {
  std::vector<Step>& steps = schedule.steps;
  if (steps[product].buffers.empty() || steps[product].payload->generated()) return false;
  const int made = steps[product].buffers.back();
  const ScheduleBuffer& buffer = schedule.buffers[static_cast<std::size_t>(made)];
  const bool is_result = buffer.kind == ScheduleBuffer::Kind::result;
  if ((!is_result && buffer.kind != ScheduleBuffer::Kind::temporary) || !buffer.strides.empty()) return false;
  std::size_t follower = product + 1;
  while (follower < steps.size() && !names(steps[follower], made)) ++follower;
  if (follower == steps.size() || !steps[follower].payload->kernel()) return false;
  bool keeps = is_result;
  for (std::size_t later = follower + 1; later < steps.size() && !keeps; ++later) keeps = names(steps[later], made);
  std::shared_ptr<Payload> payload = providers.followed(steps[product], steps[follower], keeps, device);
  if (!payload) return false;
  Step both{steps[product].name + "_" + steps[follower].name, steps[product].buffers, std::move(payload),
            steps[product].operations, steps[product].regions};
  both.buffers.pop_back();
  for (const int each : steps[follower].buffers)
    if (keeps || each != made) both.buffers.push_back(each);
  both.operations.insert(both.operations.end(), steps[follower].operations.begin(), steps[follower].operations.end());
  for (const std::uint32_t region : steps[follower].regions)
    if (std::ranges::find(both.regions, region) == both.regions.end()) both.regions.push_back(region);
  steps[follower] = std::move(both);
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(product));
  return true;
}

}  // namespace

void join_epilogues(Schedule& schedule, const Providers& providers, Device device) {
  if (device.type == Device::Type::cpu) return;
  for (std::size_t step = 0; step < schedule.steps.size();)
    if (!join(schedule, step, providers, device)) ++step;
}

}  // namespace weft
