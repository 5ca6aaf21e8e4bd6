// A function that was loaded on a device, and its launches: of generated kernels, hand-written ones and those of other
// steps. In: an entry point of a plan, then the arguments of each call. Out: one launch on a queue.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

#include "runtime/cuda/device.hpp"
#include "runtime/step.hpp"

namespace weft::runtime::cuda {

// Where a launch is put, and its blocks.
struct Launch {
  const Queue* queue;
  std::int64_t x, y = 1, z = 1;
  std::int64_t cluster = 1;  // blocks of a cluster, along x
  bool dependent = false;    // begin_launch() says so
};

// The words of a kernel's one argument, a struct of cuda.inc.
class Words {
 public:
  void add(std::uint64_t word);
  // Arguments<Buffers, Sizes>: pointers, then sizes, at least one of each.
  void add(std::span<void* const> pointers, std::span<const std::int64_t> sizes);

 private:
  friend struct DeviceFunction;
  static constexpr std::size_t most = 4096;  // 32 KB of arguments, more than a launch may have
  std::uint64_t words_[most];
  std::size_t count_ = 0;
};

struct DeviceFunction {
  // Of the entry point of the step, or of one inside it. `threads` of a block, where they are not the entry point's.
  explicit DeviceFunction(const Preparation& preparation, int threads = 0)
      : DeviceFunction(preparation, preparation.entry, threads) {}
  DeviceFunction(const Preparation& preparation, const EntryPoint& entry, int threads = 0);

  // `parameters`: the kernel's, each as it declares it (kernel_arguments.hpp).
  void launch(const Launch& launch, auto&... parameters) const {
    void* all[] = {&parameters...};
    queue(launch, all, nullptr);
  }
  void launch_words(const Launch& launch, Words& words) const;
  // Of a kernel of Arguments<Buffers, Sizes>. Without blocks nothing is launched.
  void launch_buffers(Launch launch, std::span<void* const> pointers, std::span<const std::int64_t> sizes) const;

  Function* handle = nullptr;  // null where the plan has no functions yet
  int threads = 0;             // of a block
  std::int64_t shared = 0;     // bytes of shared memory that a launch gives a block
  // Blocks beyond what the device can hold at once stride on, where a function has it so.
  std::int64_t most_blocks = most_of_a_grid;

 private:
  static constexpr std::int64_t most_of_a_grid = 0x7fffffff;
  bool waits_ = false;  // whether after_earlier_kernels() is in its code: that is of sm_90 and later
  void queue(const Launch& launch, void** parameters, void** extra) const;
};

// Blocks that a device holds at once, at the most.
std::int64_t most_that_stride(const DeviceState& device);

// Begins the launch of a kernel that waits (calls after_earlier_kernels()): notes that the latest work on the queue is
// such a kernel. Once for each launch. True where it is launched while the kernel in front of it still runs. `follows`:
// that is a kernel that waits, of the same step.
bool begin_launch(DeviceState& device, const Queue* queue, bool follows = false);

}  // namespace weft::runtime::cuda
