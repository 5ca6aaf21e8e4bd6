// How work of several devices waits for each other, on the devices and not on the host. In: queues of devices. Out:
// moments of them, and copies between them. Registered when a device is loaded.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "weft/dtype.hpp"

namespace weft {

struct Storage;

// What a device's queue holds at some time.
class Moment {
 public:
  virtual ~Moment() = default;
  // Now.
  virtual void set() = 0;
  // What is put on the other device's queue from here on waits for it. Never set, it holds up nobody.
  virtual void hold(Device other) const = 0;
};

struct BetweenDevices {
  std::unique_ptr<Moment> (*moment)(Device device);
  // Work of the device that has the value, which waits for nothing but its own queue. `blocks`: memory of that device,
  // among it what is read.
  void (*copy)(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
               std::span<Storage* const> blocks);
};
inline constinit std::atomic<const BetweenDevices*> between_devices{nullptr};

}  // namespace weft
