#include "runtime/device_target.hpp"

#include "base/fail.hpp"

namespace weft::runtime {

namespace {

constexpr std::int64_t kibibyte = 1024;
// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": shared memory of a block.
constexpr DeviceTarget targets[] = {
    {"sm_80", {8, 0}, false, false, 163 * kibibyte},      {"sm_86", {8, 6}, false, false, 99 * kibibyte},
    {"sm_89", {8, 9}, false, false, 99 * kibibyte},       {"sm_90", {9, 0}, false, false, 227 * kibibyte},
    {"sm_90a", {9, 0}, false, true, 227 * kibibyte},      {"sm_100", {10, 0}, false, false, 227 * kibibyte},
    {"sm_120", {12, 0}, false, false, 99 * kibibyte},     {"compute_80", {8, 0}, true, false, 99 * kibibyte},
    {"compute_86", {8, 6}, true, false, 99 * kibibyte},   {"compute_89", {8, 9}, true, false, 99 * kibibyte},
    {"compute_90", {9, 0}, true, false, 99 * kibibyte},   {"compute_100", {10, 0}, true, false, 99 * kibibyte},
    {"compute_120", {12, 0}, true, false, 99 * kibibyte},
};

const DeviceTarget* best_for(ComputeCapability device, bool is_text) {
  const DeviceTarget* best = nullptr;
  for (const DeviceTarget& each : targets)
    if (each.is_text == is_text && each.runs_on(device) && (!best || *best < each)) best = &each;
  return best;
}

thread_local const DeviceTarget* current = nullptr;

}  // namespace

const DeviceTarget* device_target(std::string_view name) {
  for (const DeviceTarget& each : targets)
    if (each.name == name) return &each;
  return nullptr;
}
std::string device_target_names() {
  std::string names;
  for (const DeviceTarget& each : targets) names += concat_text(names.empty() ? "" : ", ", each.name);
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

}  // namespace weft::runtime
