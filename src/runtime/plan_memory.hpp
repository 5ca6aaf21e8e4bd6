// What a call of a plan takes of memory, as it is planned. In: a prepared plan, the values of its size symbols. Out:
// bytes, in all and while each step runs, and the values that are in memory then. Results that may take an argument's
// memory count as if they did.
#pragma once
#include "runtime/plan.hpp"

namespace weft::runtime {

struct PlanMemory {
  // A temporary of the arena, or a result that has memory of its own. Temporaries in a result are no values beside it.
  struct Value {
    std::int64_t bytes = 0;
    std::size_t first = 0, last = 0;            // the steps between which it is in memory
    int result = -1;                            // which one; -1: a temporary
    std::int64_t offset = 0;                    // of a temporary, in the arena
    std::string what = {};                      // PlanBuffer::what
    std::size_t leaves_at = 0, returns_at = 0;  // the steps between which it is on the host; equal: it always is here
  };
  std::vector<Value> values;
  std::vector<std::int64_t> live;  // by step: the bytes of the values that are in memory
  std::size_t peak = 0;            // the first step of the most
  std::int64_t temporaries = 0;    // the arena, in which they lie
  std::int64_t results = 0;        // with memory of their own
  std::int64_t workspace = 0;      // what steps want besides: on the host, what that takes beyond the temporaries
  std::int64_t constants = 0;      // which the plan keeps
  std::int64_t offloaded = 0;      // of the host, for temporaries of a device
  std::int64_t arguments = 0;      // which the caller keeps

  // What a call takes beside its arguments and constants.
  std::int64_t taken() const { return temporaries + results + workspace; }
};
PlanMemory memory_of(const Plan& plan, std::span<const std::int64_t> symbols);

// The largest values in memory at the peak, the largest first, a line each: bytes, the operation with its type and the
// user's line, and from which step to which it is in memory. At most so many; the others together are one line more.
std::vector<std::string> owners_at_peak(const PlanMemory& memory, std::size_t most);

// "12.5 MiB"
std::string bytes_text(std::int64_t bytes);

}  // namespace weft::runtime
