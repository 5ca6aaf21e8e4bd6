// Who is told of the blocks of storage that are given and come back: the page of a run, and meters.
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "base/fork.hpp"
#include "base/storage.hpp"
#include "weft/error.hpp"
#include "weft/memory.hpp"

namespace weft {
namespace {

struct Meter {
  std::atomic<bool> taken = false;
  std::atomic<std::int64_t> begin = 0, peak = 0;  // of `bytes_counted`
};

constexpr int most_meters = 16;
constinit Meter meters[most_meters];
constinit std::atomic<int> metering = 0;                // meters that live
constinit std::atomic<std::int64_t> bytes_counted = 0;  // what came, less what went, while any lived
constinit std::atomic<std::int64_t> summed_up = 0;
constinit std::atomic<ToldOfStorage> page = nullptr;

void raise(std::atomic<std::int64_t>& most, std::int64_t now) {
  std::int64_t before = most.load(std::memory_order_relaxed);
  while (before < now && !most.compare_exchange_weak(before, now, std::memory_order_relaxed)) continue;
}

void tell_all(std::int64_t bytes) noexcept {
  if (auto* const told = page.load(std::memory_order_relaxed)) told(bytes);
  if (metering.load(std::memory_order_relaxed) == 0) return;
  const std::int64_t now = bytes_counted.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  for (Meter& meter : meters)
    if (meter.taken.load(std::memory_order_relaxed)) raise(meter.peak, now);
}

// Whether WEFT_TRACE asks for a page, which is told of what came before it.
bool sums_up() {
  const char* const folder = std::getenv("WEFT_TRACE");
  return folder && *folder;
}

}  // namespace

void sum_up_storage(std::int64_t bytes) noexcept {
  if (sums_up()) {
    summed_up.fetch_add(bytes, std::memory_order_relaxed);
    return;
  }
  ToldOfStorage nobody_yet = sum_up_storage;  // another thread may have begun to listen
  told_of_storage.compare_exchange_strong(nobody_yet, nullptr, std::memory_order_relaxed);
}

std::int64_t tell_of_storage(ToldOfStorage told) noexcept {
  page.store(told, std::memory_order_relaxed);
  if (told_of_storage.load(std::memory_order_relaxed) != tell_all)
    told_of_storage.store(told, std::memory_order_relaxed);
  return summed_up.load(std::memory_order_relaxed);
}

MemoryMeter::MemoryMeter() {
  const std::lock_guard lock(process_mutex(LockOrder::page));
  int place = 0;
  while (place < most_meters && meters[place].taken.load(std::memory_order_relaxed)) ++place;
  if (place == most_meters) throw Error("[MemoryMeter] there are 16 already");
  place_ = place;
  if (metering.load(std::memory_order_relaxed) == 0) {
    const ToldOfStorage before = told_of_storage.load(std::memory_order_relaxed);
    page.store(before == sum_up_storage && !sums_up() ? nullptr : before, std::memory_order_relaxed);
  }
  metering.fetch_add(1, std::memory_order_relaxed);
  told_of_storage.store(tell_all, std::memory_order_relaxed);
  const std::int64_t now = bytes_counted.load(std::memory_order_relaxed);
  meters[place].begin.store(now, std::memory_order_relaxed);
  meters[place].peak.store(now, std::memory_order_relaxed);
  meters[place].taken.store(true, std::memory_order_relaxed);
}
MemoryMeter::~MemoryMeter() {
  const std::lock_guard lock(process_mutex(LockOrder::page));
  meters[place_].taken.store(false, std::memory_order_relaxed);
  if (metering.fetch_sub(1, std::memory_order_relaxed) == 1)
    told_of_storage.store(page.load(std::memory_order_relaxed), std::memory_order_relaxed);
}
std::int64_t MemoryMeter::in_use() const {
  return bytes_counted.load(std::memory_order_relaxed) - meters[place_].begin.load(std::memory_order_relaxed);
}
std::int64_t MemoryMeter::peak() const {
  const Meter& own = meters[place_];
  return own.peak.load(std::memory_order_relaxed) - own.begin.load(std::memory_order_relaxed);
}
void MemoryMeter::reset_peak() {
  meters[place_].peak.store(bytes_counted.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace weft
