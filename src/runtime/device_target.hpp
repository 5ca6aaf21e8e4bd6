// What code of a device is made for, as a value: who makes plans and kernels asks it instead of a device, so that a
// plan is made on a machine without one. In: a name, as nvcc's. Out: its numbers, and which devices run it.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace weft::runtime {

// The compute capability of a device, or of code.
struct ComputeCapability {
  int major = 0, minor = 0;
  friend constexpr auto operator<=>(ComputeCapability, ComputeCapability) = default;
};

struct DeviceTarget {
  std::string_view name;  // "sm_90a", "compute_90"
  ComputeCapability capability;
  bool is_text = false;          // PTX, which the driver compiles for its device: that is compute_90
  bool is_for_one = false;       // with what later devices lack: sm_90a, products of groups of warps (wgmma)
  std::int64_t shared_of_block;  // bytes of shared memory that a block may have

  // Whether a device of this capability runs it: code of its own major number and no later minor one, PTX that is not
  // later.
  constexpr bool runs_on(ComputeCapability device) const {
    if (is_for_one) return device == capability;
    return capability <= device && (is_text || device.major == capability.major);
  }
  // Of those that a device runs the greater is the better: code before PTX, the later before the earlier.
  friend constexpr bool operator<(const DeviceTarget& a, const DeviceTarget& b) {
    if (a.is_text != b.is_text) return a.is_text;
    return a.capability != b.capability ? a.capability < b.capability : a.is_for_one < b.is_for_one;
  }
};

// Null where there is none of the name.
const DeviceTarget* device_target(std::string_view name);
std::string device_target_names();  // that there are: "sm_80, sm_86, ..."
// The best code for a device of this capability; null: none of the table runs there.
const DeviceTarget* target_for(ComputeCapability device);
// PTX that this device and later ones run; null as above.
const DeviceTarget* text_target_for(ComputeCapability device);

// One of each generation that Weft runs on: what must compile for every device compiles for these.
inline constexpr const char* device_generations[] = {"sm_80", "sm_89", "sm_90a", "sm_100"};

// What this thread makes plans of a device for; null: for the device that is there. In the block of a
// CompilingForDevice such plans are not made ready: they are for a package.
const DeviceTarget* current_device_target();
class CompilingForDevice {
 public:
  explicit CompilingForDevice(const DeviceTarget* target);
  ~CompilingForDevice();
  CompilingForDevice(const CompilingForDevice&) = delete;

 private:
  const DeviceTarget* before_;
};

}  // namespace weft::runtime
