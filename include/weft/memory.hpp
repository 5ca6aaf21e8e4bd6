// MemoryMeter: how much memory values, temporaries and workspaces take while it lives, of all devices together.
//   MemoryMeter meter;
//   step(model, optimizer, x, y);
//   std::cout << meter.peak() << " bytes more than before, at most\n";
// What a call will take is planned before it runs: explain(step, model, optimizer, x, y).memory.
#pragma once
#include <cstdint>

namespace weft {

// Counts the blocks of memory that Weft hands out and gets back, of all threads: tensors, the temporaries of compiled
// calls, which are kept between calls, and workspaces. Not what free lists keep, nor what libraries and the compiler
// ask the system for. While none lives nothing is counted.
class MemoryMeter {
 public:
  MemoryMeter();  // throws Error where 16 live already
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  std::int64_t in_use() const;  // bytes, less those when it was made; negative where more was given back
  std::int64_t peak() const;    // the most of in_use() since it was made, or since reset_peak()
  void reset_peak();            // from here on

 private:
  int place_;
};

}  // namespace weft
