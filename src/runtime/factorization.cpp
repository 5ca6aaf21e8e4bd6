#include "runtime/factorization.hpp"

#include <utility>

#include "runtime/host/factorization.hpp"

namespace weft::runtime {

void FactorizationStep::run(const StepCall& call) const {
  const std::span<const std::int64_t> size = call.part(sizes_);
  const FactorizationSizes<std::int64_t> sizes{size[0], size[1], size[2], size[3]};
  if (device_.type == Device::Type::cpu)
    factorize(what_, sizes, call.pointers);
  else
    run_on_copies(call, sizes);
}

void FactorizationStep::run_on_copies(const StepCall& call, const FactorizationSizes<std::int64_t>& sizes) const {
  struct Block {
    Storage* storage;
    explicit Block(std::size_t bytes) : storage(allocate(Device::cpu(), bytes)) {}
    Block(Block&& other) noexcept : storage(std::exchange(other.storage, nullptr)) {}
    ~Block() {
      if (storage) release(storage);
    }
  };
  const DeviceInterface& memory = device_interface(device_.type);
  const std::span<const std::int64_t> bytes = call.part(bytes_);
  std::vector<Block> blocks;
  std::vector<void*> buffers;
  for (const std::int64_t each : bytes) {
    blocks.emplace_back(static_cast<std::size_t>(each));
    buffers.push_back(blocks.back().storage->data);
  }
  const auto size_of = [&](std::size_t i) { return static_cast<std::size_t>(bytes[i]); };
  for (std::size_t i = 0; i < operands_; ++i)
    if (bytes[i] > 0) memory.copy(buffers[i], Device::cpu(), call.pointers[i], device_, size_of(i), call.queue);
  memory.synchronize(device_);
  factorize(what_, sizes, buffers.data());
  for (std::size_t i = operands_; i < buffers.size(); ++i)
    if (bytes[i] > 0) memory.copy(call.pointers[i], device_, buffers[i], Device::cpu(), size_of(i), call.queue);
  memory.synchronize(device_);  // the copies are read until then
}

}  // namespace weft::runtime
