// Slices that the kernels which compute them write where they will lie: a token's keys in a cache. Runs when steps have
// their order. In: steps, of which one updates a slice of a value with what one kernel has computed for it alone. Out:
// that kernel stores at a place that it reads from memory, and the update is left with what else it does, in front of
// the kernel: it copies the value where it does not lie in the result's memory already.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/update_slice.hpp"
#include "schedule/schedule.hpp"

namespace weft {

// A payload that updates a slice. The step's buffers are the value, the update, the position and the result.
class UpdatesSlice {
 public:
  virtual const runtime::SliceUpdate& slice() const = 0;
  // What is left of it where a kernel writes the slice; the step's buffers become those of that.
  virtual std::shared_ptr<const Payload> without_slice(std::vector<int>& buffers) const = 0;

 protected:
  ~UpdatesSlice() = default;
};

// A payload that is kernels of one text in one launch.
class HasKernels {
 public:
  virtual std::span<const loop::Kernel> kernels() const = 0;

 protected:
  ~HasKernels() = default;
};

void write_slices(Schedule& schedule, Device device, const Providers& providers);

}  // namespace weft
