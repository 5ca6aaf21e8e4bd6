// Memory that threads write apart from what other threads read or write: a thread that writes to a cache line takes it
// away from all others, also where these use other bytes of it.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

namespace weft {

inline constexpr std::size_t cache_lines = 128;  // two: processors fetch the neighbour as well

// For what a thread writes in each call.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + cache_lines - 1) / cache_lines * cache_lines;
    return static_cast<T*>(::operator new(bytes, std::align_val_t(cache_lines)));
  }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, std::align_val_t(cache_lines)); }
  bool operator==(const LineAllocator&) const = default;
};
template <class T>
using LineVector = std::vector<T, LineAllocator<T>>;

// A T for each few threads, in lines of its own: threads that work at once seldom write to the same. There are as many
// as processors, from 8 to 256.
inline std::size_t thread_slot_count() {
  static constinit std::atomic<std::size_t> known = 0;
  std::size_t count = known.load(std::memory_order_relaxed);
  if (count == 0) known.store(count = std::bit_ceil(std::clamp(std::thread::hardware_concurrency(), 8U, 256U)));
  return count;
}
template <class T>
class ThreadSlots {
 public:
  struct alignas(cache_lines) Slot {
    T value{};
  };
  std::size_t count() const { return mask_ + 1; }
  // That of a thread of this number.
  T& of(std::uint64_t thread) { return slots_[thread & mask_].value; }
  std::span<const Slot> all() const { return {slots_.get(), count()}; }

 private:
  std::uint64_t mask_ = thread_slot_count() - 1;
  std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(count());
};

}  // namespace weft
