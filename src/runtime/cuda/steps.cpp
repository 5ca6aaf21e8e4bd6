#include "runtime/cuda/steps.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::runtime::cuda {

namespace {

// Blocks beyond what the device can hold at once stride on.
constexpr std::int64_t blocks_a_multiprocessor = 32;
constexpr std::size_t most_words = 4096;  // 32 KB of arguments, more than a launch may have

// The kernel's one argument is Arguments<Buffers, Sizes> of cuda.inc: pointers, then sizes, at least one of each.
void launch(const DeviceState& device, Function* function, std::int64_t blocks, int threads,
            std::span<void* const> pointers, std::span<const std::int64_t> sizes) {
  if (blocks <= 0) return;
  std::uint64_t words[most_words];
  std::size_t count = 0;
  WEFT_CHECK(pointers.size() + sizes.size() + 2 <= most_words, "a kernel with ", pointers.size(), " buffers");
  for (void* pointer : pointers) words[count++] = reinterpret_cast<std::uint64_t>(pointer);
  if (pointers.empty()) words[count++] = 0;
  for (const std::int64_t size : sizes) words[count++] = static_cast<std::uint64_t>(size);
  if (sizes.empty()) words[count++] = 0;
  std::size_t bytes = count * sizeof(std::uint64_t);
  // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
  void* extra[] = {reinterpret_cast<void*>(1), words, reinterpret_cast<void*>(2), &bytes, nullptr};
  const std::int64_t grid = std::min(blocks, device.multiprocessors * blocks_a_multiprocessor);
  check(driver().cuLaunchKernel(function, static_cast<unsigned>(grid), 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
                                device.queue.stream, nullptr, extra),
        "cuLaunchKernel");
}

}  // namespace

DeviceKernel::DeviceKernel(const Preparation& preparation, std::size_t buffers, std::span<const Dim> parameters)
    : device_(use(preparation.device)),
      function_(static_cast<Function*>(preparation.function())),
      threads_(preparation.entry.threads),
      buffers_(buffers),
      units_(preparation.numbers.add({preparation.entry.units})),
      parameters_(preparation.numbers.add(parameters)) {}

void DeviceKernel::run(const StepCall& call) const {
  launch(device_, function_, call.numbers[units_.begin], threads_, {call.pointers, buffers_}, call.part(parameters_));
}

DeviceProduct::DeviceProduct(const Contraction& contraction, const Preparation& preparation)
    : product_(contraction, preparation.numbers),
      device_(use(preparation.device)),
      function_(static_cast<Function*>(preparation.function())) {
  if (product_.is_constant())
    library_ = LibraryProduct::make(device_, product_.product(preparation.numbers.constants()));
}

void DeviceProduct::run(const StepCall& call) const {
  std::byte* operands[3];
  for (std::size_t i = 0; i < 3; ++i) operands[i] = product_.first(i, call.pointers[i], call.numbers);
  if (library_) return library_->run(operands[0], operands[1], operands[2]);
  const Matmul product = product_.product(call.numbers);
  if (const auto library = LibraryProduct::make(device_, product))
    return library->run(operands[0], operands[1], operands[2]);
  std::int64_t batches = 1;
  for (const std::int64_t axis : product.batch) batches *= axis;
  if (product.m * product.n * batches == 0) return;
  WEFT_CHECK(function_, "a product that cuBLASLt does not take has no kernel");
  const auto element = static_cast<std::int64_t>(storage_bytes(product.dtype, 1));
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    std::int64_t left = batch, at[3] = {};
    for (std::size_t i = product.batch.size(); i-- > 0;) {
      const std::int64_t place = left % product.batch[i];
      left /= product.batch[i];
      at[0] += place * product.a_batch[i];
      at[1] += place * product.b_batch[i];
      at[2] += place * product.c_batch[i];
    }
    void* pointers[3];
    for (int i = 0; i < 3; ++i) pointers[i] = operands[i] + at[i] * element;
    const std::int64_t sizes[] = {product.m,     product.n,        product.k,     product.a_row,   product.a_column,
                                  product.b_row, product.b_column, product.c_row, product.c_column};
    launch(device_, function_, (product.m * product.n + 255) / 256, 256, pointers, sizes);
  }
}

DeviceScatter::DeviceScatter(Dim rows, Dim count, Dim width, const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(static_cast<Function*>(preparation.function())),
      sizes_(preparation.numbers.add({rows, count, width})) {}

// Parts of the table's rows go to different threads; each column has threads of its own anyway.
void DeviceScatter::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const std::int64_t rows = size[0], width = size[2];
  const std::int64_t parts =
      std::clamp<std::int64_t>(16384 / std::max<std::int64_t>(width, 1), 1, std::max<std::int64_t>(rows, 1));
  const std::int64_t sizes[] = {rows, size[1], width, parts};
  launch(device_, function_, (width * parts + 127) / 128, 128, {call.pointers, 3}, sizes);
}

}  // namespace weft::runtime::cuda
