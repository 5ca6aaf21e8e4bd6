// The host's memory that Weft holds: what values use and what free lists keep. It is counted when it is asked of the
// system and when it is given back. The system may grant more than there is and end the process when it is touched; so
// what would exceed the limit is not asked for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace weft {

// options().memory_limit; by default machine_memory().
std::uint64_t host_memory_limit();
std::uint64_t host_memory_held();

// Counts the bytes as held. False, and nothing is counted, where there would be more than the limit.
bool hold_host_memory(std::size_t bytes);
void drop_host_memory(std::size_t bytes);

// Throws OutOfMemory, which says what is asked, what is held, and the limit.
[[noreturn]] void refuse_host_memory(std::size_t bytes);
// For memory that is not counted: throws where so much more would exceed the limit, also after the free lists have been
// given back.
void require_host_memory(std::size_t bytes);

// Bytes that this process can have at most: the machine's memory or, where that is less, the limit of its cgroup and of
// those above it (memory.max of version 2, memory.limit_in_bytes of version 1). `root` is put before /proc and /sys.
std::uint64_t machine_memory(const std::string& root = "");

// Private memory of zeros from the system that begins where a huge page may, so that one can back it, or what is mapped
// over it from as far into a file as it is from the begin. Rounded up to whole pages; null, with errno: there is none.
// munmap gives it back.
void* map_at_huge_page(std::size_t bytes);
inline constexpr std::size_t huge_page = std::size_t{1} << 21;

}  // namespace weft
