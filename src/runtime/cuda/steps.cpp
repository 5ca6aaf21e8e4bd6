#include "runtime/cuda/steps.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/options.hpp"
#include "runtime/cuda/launch_limits.hpp"
#include "runtime/cuda/tensor_core_product.hpp"

namespace weft::runtime::cuda {

DeviceKernel::DeviceKernel(const Preparation& preparation, std::size_t buffers, std::span<const Dim> parameters)
    : device_(use(preparation.device)),
      function_(preparation),
      buffers_(buffers),
      units_(preparation.numbers.add({preparation.entry.units})),
      parameters_(preparation.numbers.add(parameters)) {}

void DeviceKernel::run(const StepCall& call) const {
  const std::int64_t blocks = call.numbers[units_.begin];
  if (blocks <= 0) return;
  function_.launch_buffers({.queue = call.queue, .x = blocks, .dependent = begin_launch(device_, call.queue)},
                           {call.pointers, buffers_}, call.part(parameters_));
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
  // The blocks that the device holds at once are shared out to the sets by their work.
  const std::int64_t most = most_that_stride(device_);  // each block finds its set first
  const auto wanted = [&](const auto& set) { return std::max<std::int64_t>(call.numbers[set.first.begin], 0); };
  std::int64_t all = 0;
  for (const auto& set : sets_) all += wanted(set);
  Words words;
  std::int64_t end = 0;
  for (const auto& set : sets_) words.add(static_cast<std::uint64_t>(end += share_of_blocks(wanted(set), all, most)));
  for (std::size_t set = 0; set < sets_.size(); ++set)
    words.add({call.pointers + set * buffers_, buffers_}, call.part(sets_[set].second));
  if (end > 0)
    function_.launch_words({.queue = call.queue, .x = end, .dependent = begin_launch(device_, call.queue)}, words);
}

DeviceProduct::DeviceProduct(const Contraction& contraction, const Preparation& preparation, std::span<const Dim> sizes,
                             const std::optional<ProductKernel>& kernel)
    : product_(contraction, preparation.numbers), device_(use(preparation.device)) {
  if (product_.is_constant())
    library_ = LibraryProduct::make(device_, product_.product(preparation.numbers.constants()), contraction.measures);
  if (!preparation.function()) return;
  if (kernel) {
    tile_ = std::make_unique<const TensorCoreProduct>(device_, *kernel, DeviceFunction(preparation),
                                                      options().own_kernels < 2 && has_product_library());
    workspace_ = static_cast<std::size_t>(kernel->workspace());
  } else {
    own_ = std::make_unique<DeviceKernel>(preparation, contraction.has_bias ? 4 : 3, sizes);
  }
}
DeviceProduct::~DeviceProduct() = default;

void DeviceProduct::run(const StepCall& call) const {
  const ProductNumbers::Operands at = product_.first(call.pointers, call.numbers);
  const bool has_library = has_product_library();
  if (tile_ && tile_->run({at.a, at.b, at.bias, at.c, call.workspace.data()},
                          has_library && library_ ? &*library_ : nullptr, call.queue))
    return;
  if (tile_ && !has_library)
    fail("matmul", {}, "reads memory from multiples of 16 bytes on where cuBLASLt is not there");
  if (own_ && !has_library) return own_->run(call);
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

// There is nothing to do: the value is in the result's memory, and other kernels have written the slice there.
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
  function_.launch_buffers(
      {.queue = call.queue, .x = std::min<std::int64_t>((count + 255) / 256, 4096), .dependent = dependent},
      {call.pointers + 1, checked_ ? 4u : 3u}, sizes);
}

DeviceCheck::DeviceCheck(const std::string& message, const Preparation& preparation)
    : device_(use(preparation.device)), function_(preparation, 1), error_(error_number(message)) {}

void DeviceCheck::run(const StepCall& call) const {
  // The host's memory has one address for both.
  const std::int64_t sizes[] = {error_, device_.check_words.on_host_of(call.pointers[1])};
  function_.launch_buffers({.queue = call.queue, .x = 1}, {call.pointers, 2}, sizes);
  if (!call.checks_wait) synchronize(device_.device);
}

}  // namespace weft::runtime::cuda
