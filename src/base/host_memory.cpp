#include "base/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <limits>

#include "base/cgroup.hpp"
#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/options.hpp"
#include "base/storage.hpp"

namespace weft {

namespace {

std::atomic<std::uint64_t> held = 0;

bool fits(std::uint64_t bytes, std::uint64_t beside) {
  const std::uint64_t limit = host_memory_limit();
  return beside <= limit && bytes <= limit - beside;
}

}  // namespace

std::uint64_t machine_memory(const std::string& root) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  if (pages > 0 && page > 0) least = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  for_each_cgroup(
      root, "memory",
      [](void* context, const std::string& folder, bool version_2) {
        std::uint64_t bytes = 0;  // a file without a number ("max") sets no limit
        auto& least = *static_cast<std::uint64_t*>(context);
        const std::string text = text_of_file(folder + (version_2 ? "memory.max" : "memory.limit_in_bytes"));
        if (std::from_chars(text.data(), text.data() + text.size(), bytes).ec == std::errc())
          least = std::min(least, bytes);
      },
      &least);
  return least;
}

std::uint64_t host_memory_limit() {
  if (const std::uint64_t chosen = options().memory_limit) return chosen;
  static constinit Lazy<const std::uint64_t> machine;
  return machine.get([] { return machine_memory(); });
}

std::uint64_t host_memory_held() { return held.load(std::memory_order_relaxed); }

bool hold_host_memory(std::size_t bytes) {
  std::uint64_t before = held.load(std::memory_order_relaxed);
  while (fits(bytes, before))
    if (held.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed)) return true;
  return false;
}

void refuse_host_memory(std::size_t bytes) {
  throw OutOfMemory(concat_text("[allocate] no memory for ", bytes, " bytes: ", host_memory_held(),
                                " are held, the limit is ", host_memory_limit(),
                                options().memory_limit ? " (WEFT_MEMORY_LIMIT)" : " (this machine's memory)")
                        .c_str());
}

void require_host_memory(std::size_t bytes) {
  if (fits(bytes, host_memory_held())) return;
  give_back_cached_memory();
  if (!fits(bytes, host_memory_held())) refuse_host_memory(bytes);
}

void* map_at_huge_page(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t wanted = (bytes + page - 1) / page * page, reserved = wanted + huge_page;
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), at = (begin + huge_page - 1) & ~(huge_page - 1);
  if (at > begin) munmap(memory, at - begin);
  munmap(reinterpret_cast<void*>(at + wanted), begin + reserved - at - wanted);
  return reinterpret_cast<void*>(at);
}

void drop_host_memory(std::size_t bytes) { held.fetch_sub(bytes, std::memory_order_relaxed); }

}  // namespace weft
