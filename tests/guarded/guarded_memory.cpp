// Preloaded into a test: heap blocks of 1500 to 200,000 bytes end where a page begins that nobody may touch, so that a
// read or a write beyond a block ends the process. AddressSanitizer sees neither what libraries do that were built
// without it nor code made at run time.
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* block);

namespace {

constexpr std::size_t page = 4096;
constexpr std::uintptr_t first = 0x200000000000, last = 0x300000000000;  // addresses, none given twice
std::uintptr_t next = first;

struct Head {  // before a block
  void* mapped;
  std::size_t mapped_bytes, bytes;
};

bool is_guarded(const void* block) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  return address >= first && address < last;
}
Head* head(void* block) { return static_cast<Head*>(block) - 1; }

void* allocate(std::size_t alignment, std::size_t bytes) {
  if (bytes < 1500 || bytes > 200000 || alignment > page) return __libc_memalign(alignment, bytes);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  const std::size_t mapped_bytes = (rounded + sizeof(Head) + page - 1) / page * page;
  const std::uintptr_t address = __atomic_fetch_add(&next, mapped_bytes + page, __ATOMIC_RELAXED);
  void* const mapped = mmap(reinterpret_cast<void*>(address), mapped_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  void* const block = static_cast<std::byte*>(mapped) + mapped_bytes - rounded;
  *head(block) = {mapped, mapped_bytes, bytes};
  return block;
}

// Programs that a test starts run without it.
__attribute__((constructor)) void only_here() { unsetenv("LD_PRELOAD"); }

}  // namespace

void* malloc(std::size_t bytes) { return allocate(16, bytes); }
void* calloc(std::size_t count, std::size_t bytes) {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all) || all < 1500 || all > 200000) return __libc_calloc(count, bytes);
  return allocate(16, all);  // fresh pages are zero
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocate(alignment < 16 ? 16 : alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = aligned_alloc(alignment, bytes);
  return *block ? 0 : ENOMEM;
}
void free(void* block) {
  if (!is_guarded(block)) return __libc_free(block);
  const Head freed = *head(block);
  munmap(freed.mapped, freed.mapped_bytes);
}
void* realloc(void* block, std::size_t bytes) {
  if (!is_guarded(block)) return __libc_realloc(block, bytes);
  void* const moved = malloc(bytes);
  if (!moved) return nullptr;
  std::memcpy(moved, block, head(block)->bytes < bytes ? head(block)->bytes : bytes);
  free(block);
  return moved;
}
}
