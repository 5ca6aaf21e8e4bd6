// Steps of a plan as a CUDA graph: captured on streams of their own, one a lane, and launched as one. In: steps and
// what puts each on a queue. Out: what replays them, and takes other pointers for some.
#pragma once
#include <memory>
#include <span>

#include "base/storage.hpp"
#include "base/work.hpp"

namespace weft::runtime::cuda {

// DeviceInterface::record.
std::unique_ptr<RecordedWork> record(Device device, std::span<const Ordered> steps, const Work& work);

}  // namespace weft::runtime::cuda
