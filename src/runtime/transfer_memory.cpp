#include "runtime/transfer.hpp"

namespace weft::runtime {

// Null where the program has no step that makes transfers (transfer.cpp); then no plan has memory for them either.
namespace cuda {
[[gnu::weak]] Storage* allocate_on_host(Device device, std::size_t bytes);
[[gnu::weak]] void end_copies(Device device) noexcept;
}  // namespace cuda

Storage* allocate_on_host(Device device, std::size_t bytes) {
  return device.type == Device::Type::cpu ? allocate(device, bytes) : cuda::allocate_on_host(device, bytes);
}

void end_transfers(Device device) noexcept {
  if (device.type != Device::Type::cpu) cuda::end_copies(device);
}

}  // namespace weft::runtime
