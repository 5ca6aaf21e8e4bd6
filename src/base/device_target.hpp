// What code of a device is made for, as a value: who makes plans and kernels asks it instead of a device, so that a
// plan is made on a machine without one. In: a name, as nvcc's. Out: its numbers and instructions, and which devices
// run it.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace weft {

// What some devices do and others lack, as far as kernels and launches of ours want it.
enum class DeviceInstruction : std::uint8_t {
  mma_float8,        // mma.sync of 8-bit floats
  bulk_copy,         // cp.async.bulk, and barriers that count its bytes: the copy engine
  tensor_copy,       // cp.async.bulk.tensor: the same by tensor maps
  cluster,           // blocks side by side that read and write each other's shared memory
  dependent_launch,  // griddepcontrol: a kernel starts while the one in front of it ends
  wgmma,             // products of groups of four warps
};

// The compute capability of a device, or of code.
struct ComputeCapability {
  int major = 0, minor = 0;
  friend constexpr auto operator<=>(ComputeCapability, ComputeCapability) = default;
  // Whether all code for it has the instruction.
  constexpr bool has(DeviceInstruction instruction) const;
};

inline constexpr ComputeCapability least_capability = {8, 0};  // of the devices that Weft runs on

namespace detail {
// CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "Target ISA Notes" of each instruction.
struct InstructionRow {
  DeviceInstruction instruction;
  ComputeCapability first;
  bool is_for_one = false;  // in code for that one alone (DeviceTarget::is_for_one)
};
inline constexpr InstructionRow instructions[] = {
    {DeviceInstruction::mma_float8, {8, 9}},       {DeviceInstruction::bulk_copy, {9, 0}},
    {DeviceInstruction::tensor_copy, {9, 0}},      {DeviceInstruction::cluster, {9, 0}},
    {DeviceInstruction::dependent_launch, {9, 0}}, {DeviceInstruction::wgmma, {9, 0}, true},
};
constexpr const InstructionRow& row_of(DeviceInstruction instruction) {
  return instructions[static_cast<std::size_t>(instruction)];
}
static_assert(std::ranges::all_of(instructions,
                                  [](const InstructionRow& row) { return &row_of(row.instruction) == &row; }));
}  // namespace detail

constexpr bool ComputeCapability::has(DeviceInstruction instruction) const {
  const detail::InstructionRow& row = detail::row_of(instruction);
  return !row.is_for_one && row.first <= *this;
}

struct DeviceTarget {
  std::string_view name;  // "sm_90a", "compute_90"
  ComputeCapability capability;
  bool is_text;                  // PTX, which the driver compiles for its device: that is compute_90
  bool is_for_one;               // with what later devices lack: sm_90a
  std::int64_t shared_of_block;  // bytes of shared memory that a block may have
  std::int64_t registers;        // of a multiprocessor, of 32 bits

  constexpr bool has(DeviceInstruction instruction) const {
    const detail::InstructionRow& row = detail::row_of(instruction);
    return row.is_for_one ? is_for_one && capability == row.first : capability.has(instruction);
  }
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

namespace detail {
inline constexpr std::int64_t kibibyte = 1024;
// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
inline constexpr DeviceTarget device_targets[] = {
    {"sm_80", {8, 0}, false, false, 163 * kibibyte, 65536},
    {"sm_86", {8, 6}, false, false, 99 * kibibyte, 65536},
    {"sm_89", {8, 9}, false, false, 99 * kibibyte, 65536},
    {"sm_90", {9, 0}, false, false, 227 * kibibyte, 65536},
    {"sm_90a", {9, 0}, false, true, 227 * kibibyte, 65536},
    {"sm_100", {10, 0}, false, false, 227 * kibibyte, 65536},
    {"sm_120", {12, 0}, false, false, 99 * kibibyte, 65536},
    {"compute_80", {8, 0}, true, false, 99 * kibibyte, 65536},
    {"compute_86", {8, 6}, true, false, 99 * kibibyte, 65536},
    {"compute_89", {8, 9}, true, false, 99 * kibibyte, 65536},
    {"compute_90", {9, 0}, true, false, 99 * kibibyte, 65536},
    {"compute_100", {10, 0}, true, false, 99 * kibibyte, 65536},
    {"compute_120", {12, 0}, true, false, 99 * kibibyte, 65536},
};
constexpr std::int64_t least_of_targets(std::int64_t DeviceTarget::*number) {
  return std::ranges::min(device_targets, {}, number).*number;
}
}  // namespace detail

// What generated kernels are laid out for: what every target has, and the multiprocessors of a large GPU. A layout
// decides in which order numbers are added, and that order, and so the roundings, must follow from sizes alone: it is
// one for all targets, whatever the GPU at hand. Launches that change no order ask the device.
namespace device_layout {
inline constexpr std::int64_t multiprocessors = 132;                                           // of an H100
inline constexpr std::int64_t registers = detail::least_of_targets(&DeviceTarget::registers);  // of each
inline constexpr std::int64_t threads = registers / 64;                                        // where each has 64
inline constexpr std::int64_t shared_of_block = detail::least_of_targets(&DeviceTarget::shared_of_block);
}  // namespace device_layout

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

}  // namespace weft
