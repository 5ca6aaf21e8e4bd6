#include "runtime/cuda/device_function.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"
#include "runtime/cuda/launch_limits.hpp"

namespace weft::runtime::cuda {

void Words::add(std::uint64_t word) {
  WEFT_CHECK(count_ < most, "a kernel with more arguments than a launch may have");
  words_[count_++] = word;
}

void Words::add(std::span<void* const> pointers, std::span<const std::int64_t> sizes) {
  for (void* pointer : pointers) add(reinterpret_cast<std::uint64_t>(pointer));
  if (pointers.empty()) add(0);
  for (const std::int64_t size : sizes) add(static_cast<std::uint64_t>(size));
  if (sizes.empty()) add(0);
}

std::int64_t most_that_stride(const DeviceState& device) {
  constexpr std::int64_t blocks_a_multiprocessor = 32;
  return device.multiprocessors * blocks_a_multiprocessor;
}

// Programmatic dependent launch of a kernel that waits: its blocks may come onto the device while the kernel in front
// of it ends. No write passes that kernel, and no read of what it may write: a kernel that waits calls
// after_earlier_kernels() of cuda.inc, which returns when the kernel in front has ended and all it wrote is visible;
// since that kernel has waited in its turn, so have all before it. Every generated kernel waits, and of the
// hand-written ones those that tests/codegen/cuda_waits_test.cpp lists. Kernels of libraries and our others do not, and are launched the ordinary way,
// after all that precedes them. In a recording only a kernel that follows one that waits on its lane is launched so:
// what else comes before it, a copy or the steps of other lanes, is a full dependency.
bool begin_launch(DeviceState& device, const Queue* queue, bool follows) {
  static constinit Lazy<const bool> known;
  if (!options().cuda_dependent_launch || !device.has(DeviceInstruction::dependent_launch)) return false;
  if (!known.get([] {
        constexpr int records_them = 12030;  // CUDA 12.3
        int version = 0;
        return driver().cuDriverGetVersion(&version) == 0 && version >= records_them;
      }))
    return false;
  if (!device.is_recorded(queue)) return true;
  const std::size_t lane = device.lane_of(queue);
  device.ends_in_kernel[lane] = true;
  return std::exchange(device.follows_kernel[lane], false) || follows;
}

// Of older architectures a kernel's code has no after_earlier_kernels(), also where the device is a later one: what a
// package has as PTX of compute_80, say.
constexpr int first_that_waits = 90;

DeviceFunction::DeviceFunction(const Preparation& preparation, const EntryPoint& entry, int fixed_threads)
    : handle(entry.name.empty() || !preparation.functions
                 ? nullptr
                 : static_cast<Function*>(preparation.functions->entry(entry.name))),
      threads(fixed_threads ? fixed_threads : entry.threads),
      shared(entry.shared) {
  const DeviceState& device = use(preparation.device);
  if (entry.strides) most_blocks = most_that_stride(device);
  if (!handle) return;
  LaunchLimits limits{.shared = device.shared_of_block};
  int static_shared = 0;
  check(driver().cuFuncGetAttribute(&limits.threads, function_most_threads, handle), "cuFuncGetAttribute");
  check(driver().cuFuncGetAttribute(&static_shared, function_static_shared, handle), "cuFuncGetAttribute");
  int version = 0;  // 80: of compute_80
  check(driver().cuFuncGetAttribute(&version, function_text_version, handle), "cuFuncGetAttribute");
  waits_ = version >= first_that_waits;
  if (const std::string why = beyond_limits({threads, static_shared, shared}, limits); !why.empty())
    throw CompileError(concat_text("[cuda] ", entry.name, " can't be launched: ", why).c_str());
  // A function must consent to more than 48 KB in all.
  if (shared > 0)
    check(driver().cuFuncSetAttribute(handle, function_dynamic_shared, static_cast<int>(shared)), "cuFuncSetAttribute");
}

void DeviceFunction::launch_words(const Launch& launch, Words& words) const {
  std::size_t bytes = words.count_ * sizeof(std::uint64_t);
  // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
  void* extra[] = {reinterpret_cast<void*>(1), words.words_, reinterpret_cast<void*>(2), &bytes, nullptr};
  queue(launch, nullptr, extra);
}

void DeviceFunction::launch_buffers(Launch launch, std::span<void* const> pointers,
                                    std::span<const std::int64_t> sizes) const {
  if (launch.x <= 0) return;
  launch.x = std::min(launch.x, most_blocks);
  Words words;
  words.add(pointers, sizes);
  launch_words(launch, words);
}

void DeviceFunction::queue(const Launch& launch, void** parameters, void** extra) const {
  std::array<LaunchAttribute, 2> attributes;
  unsigned count = 0;
  if (launch.dependent && waits_) attributes[count++] = {launch_programmatic_serialization, {}, {1}};
  if (launch.cluster > 1)
    attributes[count++] = {launch_cluster, {}, {.cluster = {static_cast<unsigned>(launch.cluster), 1, 1}}};
  const auto x = static_cast<unsigned>(launch.x), y = static_cast<unsigned>(launch.y),
             z = static_cast<unsigned>(launch.z), of_block = static_cast<unsigned>(threads),
             bytes = static_cast<unsigned>(shared);
  Stream* const stream = launch.queue->stream;
  if (count == 0)
    return check(driver().cuLaunchKernel(handle, x, y, z, of_block, 1, 1, bytes, stream, parameters, extra),
                 "cuLaunchKernel");
  const LaunchConfiguration configuration{{x, y, z}, {of_block, 1, 1}, bytes, stream, attributes.data(), count};
  check(driver().cuLaunchKernelEx(&configuration, handle, parameters, extra), "cuLaunchKernelEx");
}

}  // namespace weft::runtime::cuda
