// A value's way from a device into page-locked memory of the host, or back: a step begins it, beside the steps that
// follow, and a later step waits for it. On the host, where tests take that way, the first step is the copy.
#pragma once
#include "runtime/plan.hpp"

namespace weft::runtime {

namespace cuda {
class Arrival;
}

// A temporary in page-locked memory of the host. The plan's lie in one block, one after the other, and four steps know
// each: two that take a value of the device there, and two that bring it back.
inline bool is_on_host(const PlanBuffer& buffer) { return buffer.kind == PlanBuffer::Kind::temporary && buffer.host; }
// Of the CPU it is plain memory.
Storage* allocate_on_host(Device device, std::size_t bytes);

struct Transfer {
  Dim bytes = 0;
  std::shared_ptr<cuda::Arrival> arrival;  // of both steps
};
Transfer make_transfer(Dim bytes, bool to_host);

// After an error between both: waits for the copies that have begun, as others get the memory that they write.
void end_transfers(Device device) noexcept;

// Buffers of both: where the value is, where it goes.
std::unique_ptr<Runnable> beginning_of(const Transfer& transfer, const Preparation& preparation);
std::unique_ptr<Runnable> end_of(const Transfer& transfer, const Preparation& preparation);

}  // namespace weft::runtime
