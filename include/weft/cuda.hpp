// What a program asks of CUDA devices themselves: their memory, and the stream that Weft's work is on, with events to
// time it and to order it with kernels of the program's own. weft/weft.hpp does not include it.
//   cuda::reset_peak_memory();
//   cuda::Event begin, end;
//   begin.record();
//   step(model, optimizer, x, y).eval();
//   end.record();
//   std::cout << end.seconds_since(begin) << " s, " << cuda::memory_stats().peak << " bytes at most\n";
#pragma once
#include <cstdint>
#include <memory>

#include "weft/dtype.hpp"
#include "weft/error.hpp"

namespace weft::cuda {

// Whether the device can be used: its driver is found, and its compute capability is 8.0 or more. Makes no context of
// the device, and does not ask for NVRTC and the other libraries. Why it is false says what synchronize() throws.
bool is_available(Device device = Device::cuda()) noexcept;
// How many devices there are; 0 where there is no driver.
int device_count() noexcept;

// What follows throws Error where there is no such device, or no driver, and in a child of a process that used the
// device before it forked; the sentence says what is missing, and has the caller's line.

// Waits for the device's queued work. Throws Error where a check of this thread's calls has failed.
void synchronize(Device device = Device::cuda(), Loc loc = Loc::current());

// The stream on which all of Weft's work on the device is, in the order in which calls and evaluations queue it: a
// CUstream, which is a cudaStream_t. What a program puts there comes after what was evaluated before (.eval(), a
// compiled call), and before what is evaluated later. It lives until the process ends. to_dlpack gives a tensor's
// memory.
void* stream(Device device = Device::cuda(), Loc loc = Loc::current());

// A moment of a stream's work. Copies are the same moment. Times are of the device.
class Event {
 public:
  explicit Event(Device device = Device::cuda(), Loc loc = Loc::current());  // not recorded yet
  // When all is done that is on the stream so far; without one, on Weft's. A later record() is another moment.
  void record(void* stream = nullptr, Loc loc = Loc::current());
  // What is put on the stream from here on waits for the moment; without one, Weft's later work. The host does not
  // wait. Before record() there is nothing to wait for.
  void wait(void* stream = nullptr, Loc loc = Loc::current()) const;
  // The host waits for the moment.
  void synchronize(Loc loc = Loc::current()) const;
  // From the other moment to this one; waits for both. Throws Error where one was not recorded.
  double seconds_since(const Event& earlier, Loc loc = Loc::current()) const;

 private:
  struct Data;
  std::shared_ptr<Data> data_;
};

// Of one device, in bytes, but for `blocks`. What libraries and loaded kernels take by themselves is not counted. Of
// all devices together, the host too: MemoryMeter (weft/memory.hpp). What a call will take is planned before it runs:
// explain(step, model, optimizer, x, y).memory.
struct MemoryStats {
  std::int64_t in_use = 0;         // of tensors, of temporaries that compiled calls keep, and of workspaces
  std::int64_t peak = 0;           // the most of in_use since the start or reset_peak_memory
  std::int64_t reserved = 0;       // what the driver has given: what is in use, and what is kept for later blocks
  std::int64_t peak_reserved = 0;  // the most of reserved, likewise
  std::int64_t blocks = 0;         // how many are in use
  std::int64_t limit = 0;          // 0: none
};

// As of now. Memory that queued work still reads and nobody holds any more counts as kept.
MemoryStats memory_stats(Device device = Device::cuda(), Loc loc = Loc::current());
// peak and peak_reserved are what is in use and reserved now, and rise from there.
void reset_peak_memory(Device device = Device::cuda(), Loc loc = Loc::current());
// Beyond so many bytes in use a call throws OutOfMemory, its state as before, and what is kept beyond it is given back
// to the driver. 0: no limit. The first value is that of the variable WEFT_CUDA_MEMORY_LIMIT.
void set_memory_limit(std::int64_t bytes, Device device = Device::cuda(), Loc loc = Loc::current());
// Waits for the device's queued work, and gives the driver, and so other programs, what is kept. Temporaries that
// compiled functions keep between calls are in use, and stay.
void empty_cache(Device device = Device::cuda(), Loc loc = Loc::current());

}  // namespace weft::cuda
