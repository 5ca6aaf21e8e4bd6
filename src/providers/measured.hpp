// Offers by time that was measured, for Level::O3. In: what several providers offer for one operation on the CPU whose
// sizes are known. Out: the one that takes the least time on memory of our own. Each operation is measured once in a
// process.
#pragma once
#include <optional>
#include <span>
#include <utility>

#include "base/storage.hpp"
#include "schedule/provider.hpp"

namespace weft::providers {

// Memory of an operand or a result that is there to be timed: zeros, or of floats that are read ones, so that no
// arithmetic is of numbers that are slow, and every index is one.
class TrialMemory {
 public:
  TrialMemory(DType dtype, std::int64_t elements, bool read);
  TrialMemory(TrialMemory&& from) noexcept : block_(std::exchange(from.block_, nullptr)) {}
  ~TrialMemory() {
    if (block_) release(block_);
  }
  void* data() const { return block_->data; }

 private:
  Storage* block_;
};

// Its place among the offers, of which there are two at least. Nothing where a size is not known, where one of them
// can't run yet, as a kernel that is not compiled, or where it is compiled for another instruction set.
std::optional<std::size_t> fastest(const Candidate& candidate, std::span<const Offer> offers);

}  // namespace weft::providers
