#include "runtime/cuda/block_counters.hpp"

#include <mutex>
#include <vector>

#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {

std::uint32_t* block_counters(const DeviceState& device, const Queue* queue) {
  struct Counters {
    std::mutex mutex;
    Storage* memory = nullptr;
  };
  static constinit PerDevice<Counters> all;
  auto& [mutex, counters] = all.of(device.device);
  const std::lock_guard lock(mutex);
  if (!counters) {
    const std::vector<std::uint32_t> zeros(most_lanes * most_block_counters);
    const std::size_t bytes = zeros.size() * sizeof(std::uint32_t);
    Storage* const fresh = allocate(device.device, bytes);
    device_interface(Device::Type::cuda).copy(fresh->data, device.device, zeros.data(), Device(), bytes, nullptr);
    counters = fresh;
  }
  return reinterpret_cast<std::uint32_t*>(counters->data) + device.lane_of(queue) * most_block_counters;
}

}  // namespace weft::runtime::cuda
