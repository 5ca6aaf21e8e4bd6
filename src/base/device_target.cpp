#include "base/device_target.hpp"

#include "base/fail.hpp"

namespace weft {

namespace {

const DeviceTarget* best_for(ComputeCapability device, bool is_text) {
  const DeviceTarget* best = nullptr;
  for (const DeviceTarget& each : detail::device_targets)
    if (each.is_text == is_text && each.runs_on(device) && (!best || *best < each)) best = &each;
  return best;
}

thread_local const DeviceTarget* current = nullptr;

}  // namespace

const DeviceTarget* device_target(std::string_view name) {
  for (const DeviceTarget& each : detail::device_targets)
    if (each.name == name) return &each;
  return nullptr;
}
std::string device_target_names() {
  std::string names;
  for (const DeviceTarget& each : detail::device_targets) names += concat_text(names.empty() ? "" : ", ", each.name);
  return names;
}
const DeviceTarget* target_for(ComputeCapability device) {
  const DeviceTarget* const code = best_for(device, false);
  return code ? code : best_for(device, true);
}
const DeviceTarget* text_target_for(ComputeCapability device) { return best_for(device, true); }

const DeviceTarget* current_device_target() { return current; }
CompilingForDevice::CompilingForDevice(const DeviceTarget* target) : before_(current) { current = target; }
CompilingForDevice::~CompilingForDevice() { current = before_; }

}  // namespace weft
