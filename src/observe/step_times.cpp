#include "observe/step_times.hpp"

#include <algorithm>

namespace weft::detail {

std::vector<double> StepTimes::first_call_of(const runtime::Plan& plan) const {
  std::vector<double> seconds;
  const auto call = std::ranges::find(calls, &plan, &Call::plan);
  if (call == calls.end()) return seconds;
  for (const Run& run : call->runs)
    if (steps[run.step].outer < 0) seconds.push_back(run.end - run.begin);
  return seconds;
}

void StepTimes::note(Device device) {
  if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
}

void StepTimes::begin_call(const runtime::Plan& plan, std::span<const std::int64_t> symbols, bool waits) {
  note(plan.device);
  plan_ = &plan;
  symbols_.assign(symbols.begin(), symbols.end());
  alive_.insert(plan.prepared);
  open_.clear();
  closed_.clear();
  host_marks_.clear();
  marks_put_ = 0;
  begin_ = Clock::now();
  if (plan.device.type == Device::Type::cpu) return;
  marks_ = device_interface(plan.device.type).marks(plan.device);
  // The host runs ahead, so that the times are those of the device and not of the launches.
  if (!waits && ran_.contains({plan_, symbols_})) marks_->hold();
}

std::size_t StepTimes::put() {
  if (marks_)
    marks_->put();
  else
    host_marks_.push_back(std::chrono::duration<double>(Clock::now() - begin_).count());
  return marks_put_++;
}

void StepTimes::begin_step(const runtime::Launch& launch, Queue*) {
  const auto [found, fresh] = known_.try_emplace({&launch, symbols_}, steps.size());
  if (fresh)
    steps.push_back({launch.name, plan_->title, launch.operations, work_of(launch, symbols_), launch.dtype,
                     plan_->device, open_.empty() ? -1 : static_cast<int>(open_.back().step)});
  open_.push_back({found->second, put()});
}

void StepTimes::end_step(Queue*) {
  const Open open = open_.back();
  open_.pop_back();
  closed_.push_back({open.step, open.begin, put()});
}

void StepTimes::end_call() noexcept {
  try {
    finish();
  } catch (...) {  // the call has failed on the device, which says so itself
  }
  marks_.reset();
}

void StepTimes::finish() {
  const std::vector<double> moments = marks_ ? marks_->seconds() : std::move(host_marks_);
  Call call{plan_, begin_, {}, moments.empty() ? 0 : moments.back()};
  for (const Closed& closed : closed_)
    call.runs.push_back({closed.step, moments.at(closed.begin), moments.at(closed.end)});
  calls.push_back(std::move(call));
  ran_.emplace(plan_, symbols_);
}

}  // namespace weft::detail
