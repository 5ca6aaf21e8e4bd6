#include "runtime/cuda/memory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/fail.hpp"
#include "base/options.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/users_call.hpp"

namespace weft::runtime::cuda {
namespace {

constexpr std::size_t smallest = 512;  // the driver's own granularity
constexpr std::size_t largest_kept = std::size_t{1} << 20;
constexpr std::size_t most_kept = std::size_t{64} << 20;  // bytes in the lists
constexpr std::size_t largest_small = std::size_t{4} << 20;
constexpr std::int64_t few_chunks = std::int64_t{64} << 20;  // a chunk of each pool

// Numbers of the driver's enumerations.
constexpr int attribute_memory_pools = 115;
constexpr int pool_threshold = 4, pool_reserved = 5;
constexpr int located_on_device = 1, pinned = 1, read_and_write = 3;

Pointer address(const void* data) { return reinterpret_cast<Pointer>(data); }

}  // namespace

void DeviceMemory::open(Device device, int ordinal, Stream* stream) {
  device_ = device, ordinal_ = ordinal, stream_ = stream;
  int has_pools = 0;
  check(driver().cuDeviceGetAttribute(&has_pools, attribute_memory_pools, ordinal), "cuDeviceGetAttribute");
  if (!has_pools) fail("cuda", {}, "cuda:", static_cast<int>(device.index), " has no memory pools, which Weft needs");
  MemoryPoolProperties properties;
  properties.type = pinned;
  properties.location = {located_on_device, ordinal};
  for (MemoryPool*& pool : pools_) {
    check(driver().cuMemPoolCreate(&pool, &properties), "cuMemPoolCreate");
    std::uint64_t keeps_all = ~std::uint64_t{0};  // what is freed stays in the pool when the stream is waited for
    check(driver().cuMemPoolSetAttribute(pool, pool_threshold, &keeps_all), "cuMemPoolSetAttribute");
  }
  limit_ = static_cast<std::int64_t>(options().cuda_memory_limit);
}

// Small blocks have four size classes an octave, so that few lists serve all sizes.
std::size_t DeviceMemory::capacity(std::size_t bytes) {
  if (bytes <= smallest) return smallest;
  if (bytes > largest_kept) return (bytes + smallest - 1) / smallest * smallest;
  const int shift = std::bit_width(bytes - 1) - 3;
  return (((bytes - 1) >> shift) + 1) << shift;
}

std::string DeviceMemory::name() const { return concat_text("cuda:", static_cast<int>(device_.index)); }

void DeviceMemory::hold(std::size_t capacity) {
  const auto bytes = static_cast<std::int64_t>(capacity);
  const std::int64_t held = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (const std::int64_t limit = limit_; limit > 0 && held > limit) {
    in_use_ -= bytes;
    throw OutOfMemory(concat_text("[allocate] no memory for ", capacity, " bytes on ", name(), ": ", held - bytes,
                                  " are in use, the limit is ", limit)
                          .c_str());
  }
  count_.fetch_add(1, std::memory_order_relaxed);
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) continue;
}

void DeviceMemory::drop(std::size_t capacity) noexcept {
  in_use_.fetch_sub(static_cast<std::int64_t>(capacity), std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

void* DeviceMemory::take(std::size_t capacity) {
  hold(capacity);
  try {
    return ask(capacity);
  } catch (...) {
    drop(capacity);
    throw;
  }
}

void* DeviceMemory::ask(std::size_t capacity) {
  if (capacity <= largest_kept) {
    const std::lock_guard lock(mutex_);
    if (const auto found = blocks_.find(capacity); found != blocks_.end() && !found->second.empty()) {
      void* const data = found->second.back();
      found->second.pop_back();
      kept_ -= capacity;
      return data;
    }
  }
  MemoryPool* const pool = pools_[capacity > largest_small];
  Pointer pointer = 0;
  int result = driver().cuMemAllocFromPoolAsync(&pointer, capacity, pool, stream_);
  if (result == error_out_of_memory) {
    give_back();
    result = driver().cuMemAllocFromPoolAsync(&pointer, capacity, pool, stream_);
  }
  if (result == error_out_of_memory) {
    std::size_t free = 0, total = 0;
    driver().cuMemGetInfo_v2(&free, &total);
    throw OutOfMemory(concat_text("[allocate] no memory for ", capacity, " bytes on ", name(), ", which has ", free,
                                  " of ", total, " bytes left")
                          .c_str());
  }
  check(result, "cuMemAllocFromPoolAsync");
  if (capacity > largest_small) bound_reserved();
  return reinterpret_cast<void*>(pointer);
}

// Gives unused chunks back if the pools have grown beyond the limit, or beyond the peak of use and a tenth.
void DeviceMemory::bound_reserved() {
  const std::int64_t before = reserved_.load(std::memory_order_relaxed), peak = peak_, limit = limit_;
  std::int64_t now = reserved();
  const std::int64_t most = peak + peak / 10 + few_chunks;
  if (now > before && (now > most || (limit > 0 && now > limit))) {
    give_back();
    now = reserved();
  }
  reserved_.store(now, std::memory_order_relaxed);
  if (now > peak_reserved_.load(std::memory_order_relaxed)) peak_reserved_.store(now, std::memory_order_relaxed);
}

void DeviceMemory::give(void* data, std::size_t capacity) noexcept {
  drop(capacity);
  if (capacity <= largest_kept) {
    const std::lock_guard lock(mutex_);
    if (kept_ + capacity <= most_kept) {
      blocks_[capacity].push_back(data);
      kept_ += capacity;
      return;
    }
  }
  driver().cuMemFreeAsync(address(data), stream_);  // fails where the driver has ended, and its memory with it
}

void DeviceMemory::give_back() {
  decltype(blocks_) kept;
  {
    const std::lock_guard lock(mutex_);
    kept = std::exchange(blocks_, {});
    kept_ = 0;
  }
  for (const auto& [capacity, list] : kept)
    for (void* const data : list) check(driver().cuMemFreeAsync(address(data), stream_), "cuMemFreeAsync");
  check(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  for (MemoryPool* const pool : pools_) check(driver().cuMemPoolTrimTo(pool, 0), "cuMemPoolTrimTo");
}

void DeviceMemory::share(int ordinal) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t bit = std::uint64_t{1} << ordinal;
  if (shared_with_ & bit) return;
  int can = 0;
  check(driver().cuDeviceCanAccessPeer(&can, ordinal, ordinal_), "cuDeviceCanAccessPeer");
  const MemoryAccess access{{located_on_device, ordinal}, read_and_write};
  for (MemoryPool* const pool : pools_)
    if (can) check(driver().cuMemPoolSetAccess(pool, &access, 1), "cuMemPoolSetAccess");
  shared_with_ |= bit;
}

std::int64_t DeviceMemory::reserved() const {
  std::int64_t all = 0;
  for (MemoryPool* const pool : pools_) {
    std::uint64_t bytes = 0;
    check(driver().cuMemPoolGetAttribute(pool, pool_reserved, &bytes), "cuMemPoolGetAttribute");
    all += static_cast<std::int64_t>(bytes);
  }
  return all;
}

void DeviceMemory::reset_peaks() {
  peak_ = in_use_.load();
  peak_reserved_ = reserved();
}

weft::cuda::MemoryStats DeviceMemory::stats() const {
  const std::int64_t now = reserved();
  return {in_use_, peak_, now, std::max(now, peak_reserved_.load()), count_, limit_};
}

}  // namespace weft::runtime::cuda

namespace weft::cuda {

using runtime::cuda::memory_of;
using runtime::cuda::users_call;

MemoryStats memory_stats(Device device, Loc loc) {
  return users_call("memory_stats", loc, [&] { return memory_of(device).stats(); });
}
void reset_peak_memory(Device device, Loc loc) {
  users_call("reset_peak_memory", loc, [&] { memory_of(device).reset_peaks(); });
}
void set_memory_limit(std::int64_t bytes, Device device, Loc loc) {
  if (bytes < 0) fail("set_memory_limit", loc, "a limit of ", bytes, " bytes: it is 0 for none, or more");
  users_call("set_memory_limit", loc, [&] { memory_of(device).set_limit(bytes); });
}
void empty_cache(Device device, Loc loc) {
  users_call("empty_cache", loc, [&] { memory_of(device).give_back(); });
}

}  // namespace weft::cuda
