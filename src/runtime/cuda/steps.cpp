#include "runtime/cuda/steps.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"
#include "runtime/cuda/launch_limits.hpp"
#include "runtime/cuda/tensor_core_product.hpp"

namespace weft::runtime::cuda {

namespace {

// Blocks beyond what the device can hold at once stride on, where a function has it so.
constexpr std::int64_t blocks_a_multiprocessor = 32, most_of_a_grid = 0x7fffffff;
constexpr std::size_t most_words = 4096;  // 32 KB of arguments, more than a launch may have

// The words of a kernel's one argument, a struct of cuda.inc.
class Words {
 public:
  void add(std::uint64_t word) {
    WEFT_CHECK(count_ < most_words, "a kernel with more arguments than a launch may have");
    words_[count_++] = word;
  }
  // Arguments<Buffers, Sizes>: pointers, then sizes, at least one of each.
  void add(std::span<void* const> pointers, std::span<const std::int64_t> sizes) {
    for (void* pointer : pointers) add(reinterpret_cast<std::uint64_t>(pointer));
    if (pointers.empty()) add(0);
    for (const std::int64_t size : sizes) add(static_cast<std::uint64_t>(size));
    if (sizes.empty()) add(0);
  }
  void launch(const Queue* queue, const Compiled& function, std::int64_t blocks, bool dependent = false) {
    std::size_t bytes = count_ * sizeof(std::uint64_t);
    // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
    void* extra[] = {reinterpret_cast<void*>(1), words_, reinterpret_cast<void*>(2), &bytes, nullptr};
    if (dependent) {
      LaunchAttribute attribute{launch_programmatic_serialization, {}, {1}};
      const LaunchConfiguration configuration{{static_cast<unsigned>(blocks), 1, 1},
                                              {static_cast<unsigned>(function.threads), 1, 1},
                                              static_cast<unsigned>(function.shared),
                                              queue->stream,
                                              &attribute,
                                              1};
      return check(driver().cuLaunchKernelEx(&configuration, function.entry, nullptr, extra), "cuLaunchKernelEx");
    }
    check(driver().cuLaunchKernel(function.entry, static_cast<unsigned>(blocks), 1, 1,
                                  static_cast<unsigned>(function.threads), 1, 1, static_cast<unsigned>(function.shared),
                                  queue->stream, nullptr, extra),
          "cuLaunchKernel");
  }

 private:
  std::uint64_t words_[most_words];
  std::size_t count_ = 0;
};

std::int64_t most_that_stride(const DeviceState& device) { return device.multiprocessors * blocks_a_multiprocessor; }
std::int64_t most_blocks(const DeviceState& device, const Compiled& function) {
  return function.strides ? most_that_stride(device) : most_of_a_grid;
}

}  // namespace

// Programmatic dependent launch of a kernel that waits: its blocks may come onto the device while the kernel in front
// of it ends. No write passes that kernel, and no read of what it may write: a kernel that waits calls
// after_earlier_kernels() of cuda.inc, which returns when the kernel in front has ended and all it wrote is visible;
// since that kernel has waited in its turn, so have all before it. Every generated kernel waits, and so do those of
// update_slice, of attention of few queries, of products of few rows and of depthwise convolutions
// (tests/codegen/cuda_waits_test.cpp). Kernels of libraries and our others do not, and are launched the ordinary way,
// after all that precedes them. In a recording only a kernel that follows one that waits on its lane is launched so:
// what else comes before it, a copy or the steps of other lanes, is a full dependency.
bool begin_launch(DeviceState& device, const Queue* queue, bool follows) {
  static constinit Lazy<const bool> known;
  if (!options().cuda_dependent_launch || device.major < 9) return false;
  if (!known.get([] {
        constexpr int records_them = 12030;  // CUDA 12.3
        int version = 0;
        return driver().cuLaunchKernelEx && driver().cuDriverGetVersion(&version) == 0 && version >= records_them;
      }))
    return false;
  if (!device.is_recorded(queue)) return true;
  const std::size_t lane = device.lane_of(queue);
  device.ends_in_kernel[lane] = true;
  return std::exchange(device.follows_kernel[lane], false) || follows;
}

void launch(const DeviceState& device, const Queue* queue, const Compiled& function, std::int64_t blocks,
            std::span<void* const> pointers, std::span<const std::int64_t> sizes, bool dependent) {
  if (blocks <= 0) return;
  Words words;
  words.add(pointers, sizes);
  words.launch(queue, function, std::min(blocks, most_blocks(device, function)), dependent);
}

Compiled::Compiled(const Preparation& preparation, int fixed_threads)
    : entry(static_cast<Function*>(preparation.function())),
      threads(fixed_threads ? fixed_threads : preparation.entry.threads),
      shared(preparation.entry.shared),
      strides(preparation.entry.strides) {
  if (!entry) return;
  LaunchLimits limits{.shared = use(preparation.device).shared_of_block};
  int static_shared = 0;
  check(driver().cuFuncGetAttribute(&limits.threads, function_most_threads, entry), "cuFuncGetAttribute");
  check(driver().cuFuncGetAttribute(&static_shared, function_static_shared, entry), "cuFuncGetAttribute");
  if (const std::string why = beyond_limits({threads, static_shared, shared}, limits); !why.empty())
    throw CompileError(concat_text("[cuda] ", preparation.entry.name, " can't be launched: ", why).c_str());
  // A function must consent to more than 48 KB in all.
  if (shared > 0)
    check(driver().cuFuncSetAttribute(entry, function_dynamic_shared, static_cast<int>(shared)), "cuFuncSetAttribute");
}

DeviceKernel::DeviceKernel(const Preparation& preparation, std::size_t buffers, std::span<const Dim> parameters)
    : device_(use(preparation.device)),
      function_(preparation),
      buffers_(buffers),
      units_(preparation.numbers.add({preparation.entry.units})),
      parameters_(preparation.numbers.add(parameters)) {}

void DeviceKernel::run(const StepCall& call) const {
  const std::int64_t blocks = call.numbers[units_.begin];
  if (blocks <= 0) return;
  Words words;
  words.add({call.pointers, buffers_}, call.part(parameters_));
  words.launch(call.queue, function_, std::min(blocks, most_blocks(device_, function_)),
               begin_launch(device_, call.queue));
}

std::size_t most_sets(std::size_t buffers, std::size_t parameters) {
  constexpr std::size_t most = 4096 / sizeof(std::uint64_t);  // what every driver takes
  return most / (1 + std::max<std::size_t>(buffers, 1) + std::max<std::size_t>(parameters, 1));
}

DeviceKernelTable::DeviceKernelTable(const Preparation& preparation, std::size_t buffers,
                                     std::span<const std::span<const Dim>> parameters)
    : device_(use(preparation.device)), function_(preparation), buffers_(buffers) {
  for (std::size_t set = 0; set < parameters.size(); ++set)
    sets_.emplace_back(preparation.numbers.add({preparation.entry.sets[set]}),
                       preparation.numbers.add(parameters[set]));
}

void DeviceKernelTable::run(const StepCall& call) const {
  // Each set has a share of what the device holds at once, by the work that it has.
  const std::int64_t most = most_that_stride(device_);  // each block finds its set first
  const auto wanted = [&](const auto& set) { return std::max<std::int64_t>(call.numbers[set.first.begin], 0); };
  std::int64_t all = 0;
  for (const auto& set : sets_) all += wanted(set);
  Words words;
  std::int64_t end = 0;
  for (const auto& set : sets_) words.add(static_cast<std::uint64_t>(end += share_of_blocks(wanted(set), all, most)));
  for (std::size_t set = 0; set < sets_.size(); ++set)
    words.add({call.pointers + set * buffers_, buffers_}, call.part(sets_[set].second));
  if (end > 0) words.launch(call.queue, function_, end, begin_launch(device_, call.queue));
}

DeviceProduct::DeviceProduct(const Contraction& contraction, const Preparation& preparation, std::span<const Dim> sizes,
                             bool by_tensor_cores)
    : product_(contraction, preparation.numbers), device_(use(preparation.device)) {
  if (product_.is_constant())
    library_ = LibraryProduct::make(device_, product_.product(preparation.numbers.constants()), contraction.measures);
  if (!preparation.function()) return;
  if (by_tensor_cores)
    tile_ = std::make_unique<const TensorCoreProduct>(device_, contraction, Compiled(preparation));
  else
    own_ = std::make_unique<DeviceKernel>(preparation, contraction.has_bias ? 4 : 3, sizes);
}
DeviceProduct::~DeviceProduct() = default;

void DeviceProduct::run(const StepCall& call) const {
  const ProductNumbers::Operands at = product_.first(call.pointers, call.numbers);
  if (tile_ && library_ && tile_->run(at.a, at.b, at.bias, at.c, *library_, call.queue)) return;
  if (library_) return library_->run(at.a, at.b, at.bias, at.c, call.queue);
  if (const auto library = LibraryProduct::make(device_, product_.product(call.numbers)))
    return library->run(at.a, at.b, at.bias, at.c, call.queue);
  WEFT_CHECK(own_, "a product that cuBLASLt does not take has no kernel");
  own_->run(call);
}

DeviceUpdate::DeviceUpdate(const SliceUpdate& update, bool checked, const Preparation& preparation)
    : host_(update, preparation.numbers),
      device_(use(preparation.device)),
      function_(preparation, 256),
      element_(update.element),
      checked_(checked),
      sizes_(update.numbers(preparation.numbers)) {}

// The buffers of the host's step, and where the device's is checked, the error word.
bool fits_checked(const Runnable& host, bool checked, std::span<const std::int64_t> numbers,
                  std::span<const Room> rooms) {
  if (!checked) return host.fits(numbers, rooms);
  return !rooms.empty() && rooms.back().bytes >= 4 && host.fits(numbers, rooms.first(rooms.size() - 1));
}

bool DeviceUpdate::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  return fits_checked(host_, checked_, numbers, rooms);
}

// The value lies where the result does, and kernels write the slice.
bool DeviceUpdate::is_idle(const StepCall& call) const {
  const std::span<const std::int64_t> n = call.part(sizes_);
  return static_cast<std::byte*>(call.pointers[0]) + n[4] * element_ == call.pointers[3] && n[0] * n[1] * n[3] == 0;
}

void DeviceUpdate::run(const StepCall& call) const {
  const std::span<const std::int64_t> n = call.part(sizes_);
  const std::int64_t part = n[3] * n[1], whole = n[2] * n[1], count = n[0] * part;
  auto* const value = static_cast<std::byte*>(call.pointers[0]) + n[4] * element_;
  const bool copies = value != call.pointers[3] && n[0] * whole > 0;
  if (copies)
    device_interface(Device::Type::cuda)
        .copy(call.pointers[3], device_.device, value, device_.device,
              static_cast<std::size_t>(n[0] * whole * element_), call.queue);
  if (count == 0) return;
  const std::int64_t sizes[] = {count, part, whole, n[1], n[2] - n[3], n[5], n[6]};
  const bool dependent = begin_launch(device_, call.queue) && !copies;  // a copy does not wait
  launch(device_, call.queue, function_, std::min<std::int64_t>((count + 255) / 256, 4096),
         {call.pointers + 1, checked_ ? 4u : 3u}, sizes, dependent);
}

DeviceCheck::DeviceCheck(const std::string& message, const Preparation& preparation)
    : device_(use(preparation.device)), function_(preparation, 1), error_(error_number(message)) {}

void DeviceCheck::run(const StepCall& call) const {
  // The host's memory has one address for both.
  const std::int64_t sizes[] = {error_,
                                static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(device_.error_on_host))};
  launch(device_, call.queue, function_, 1, {call.pointers, 2}, sizes);
  if (!call.checks_wait) synchronize(device_.device);
}

}  // namespace weft::runtime::cuda
