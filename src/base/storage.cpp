// The CPU's memory: blocks in size classes (four an octave, so at most a quarter is wasted), freed into a list of the
// thread, then into one of the process, then to the system. In: bytes. Out: a Storage with its header from the same
// list. A block from the thread's list costs a few instructions: no lock, no system call, no heap. Blocks larger than
// `local_block` take the lock of the process's list, once each way. Invariants: data is 64-byte aligned; what is cached
// is bounded (`local_limit` a thread, `shared_limit` in all), counts as held, and is given back to the system before an
// allocation is refused, but for the little that other threads keep. With AddressSanitizer a cached block is poisoned,
// and so is what lies beyond the asked bytes.
#include "base/storage.hpp"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/host_memory.hpp"
#include "base/lazy.hpp"
#include "base/per_thread.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace weft {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t largest = std::size_t{1} << 46;
constexpr std::size_t local_block = std::size_t{1} << 18;  // a larger one costs more to fill than the shared lock
constexpr std::size_t local_limit = std::size_t{8} << 20;
constexpr std::size_t shared_limit = std::size_t{1} << 30;
constexpr int class_count = 160;

struct SizeClass {
  int index;
  std::size_t capacity;
};

constexpr SizeClass size_class(std::size_t bytes) {
  std::size_t last = bytes == 0 ? 0 : bytes - 1;
  if (last < 256) return {static_cast<int>(last / 64), (last / 64 + 1) * 64};
  int shift = std::bit_width(last) - 3;  // `last` in units of 2^shift is 4, 5, 6 or 7
  return {4 + (shift - 6) * 4 + static_cast<int>(last >> shift & 3), ((last >> shift) + 1) << shift};
}
static_assert(size_class(256).index == 3 && size_class(257).index == 4 && size_class(257).capacity == 320);
static_assert(size_class(largest).index < class_count && size_class(largest).capacity == largest);

// A header keeps its memory while both are cached. On a line of its own: counts of neighbours are not falsely shared.
struct alignas(alignment) Block : Storage {
  Block* next = nullptr;
  std::size_t capacity = 0;
  int index = 0;
};

struct FreeLists {
  Block* first[class_count] = {};
  std::size_t bytes = 0;

  void push(Block* block) {
    block->next = first[block->index];
    first[block->index] = block;
    bytes += block->capacity;
  }
  Block* pop(int index) {
    Block* block = first[index];
    if (!block) return nullptr;
    first[index] = block->next;
    bytes -= block->capacity;
    return block;
  }
};

// Huge pages back blocks of at least one: a pass over fresh memory then takes 512 times fewer page faults.
void* system_allocate(std::size_t capacity) {
  if (capacity < huge_page) return std::aligned_alloc(alignment, capacity);
  void* const memory = map_at_huge_page(capacity);
  if (memory) madvise(memory, capacity, MADV_HUGEPAGE);
  return memory;
}

void system_free(Block* block) {
  ASAN_UNPOISON_MEMORY_REGION(block->data, block->capacity);
  if (block->capacity < huge_page)
    std::free(block->data);
  else
    munmap(block->data, block->capacity);
  drop_host_memory(block->capacity);
  delete block;
}

struct SharedLists {
  ProcessMutex& mutex = process_mutex(LockOrder::memory);
  FreeLists lists;

  static SharedLists& instance() {
    static constinit Lazy<SharedLists> shared;
    return shared.get();
  }
  Block* pop(int index) {
    std::lock_guard lock(mutex);
    return lists.pop(index);
  }
  void push(Block* block) {
    {
      std::lock_guard lock(mutex);
      if (lists.bytes + block->capacity <= shared_limit) return lists.push(block);
    }
    system_free(block);
  }
  void give_back() {
    std::lock_guard lock(mutex);
    for (int index = 0; index < class_count; ++index)
      while (Block* block = lists.pop(index)) system_free(block);
  }
};

// The thread's own lists. What they keep goes to the process when the thread ends.
struct LocalLists {
  FreeLists lists;
  ~LocalLists() {
    for (int index = 0; index < class_count; ++index)
      while (Block* block = lists.pop(index)) SharedLists::instance().push(block);
  }
};
FreeLists& local_lists() { return per_thread<LocalLists>().lists; }

void cpu_free(Storage* storage) {
  auto* block = static_cast<Block*>(storage);
  ASAN_POISON_MEMORY_REGION(block->data, block->capacity);
  if (block->capacity <= local_block)
    if (FreeLists& local = local_lists(); local.bytes + block->capacity <= local_limit) return local.push(block);
  SharedLists::instance().push(block);
}

Block* new_block(SizeClass wanted) {
  if (!hold_host_memory(wanted.capacity)) return nullptr;
  Block* block = new (std::nothrow) Block;
  if (block) block->data = system_allocate(wanted.capacity);
  if (!block || !block->data) {
    drop_host_memory(wanted.capacity);
    delete block;
    return nullptr;
  }
  block->capacity = wanted.capacity;
  block->index = wanted.index;
  block->free = cpu_free;
  return block;
}

Storage* cpu_allocate(Device device, std::size_t bytes, Queue* queue) {
  if (bytes > largest) [[unlikely]]
    refuse_host_memory(bytes);
  SizeClass wanted = size_class(bytes);
  FreeLists& local = local_lists();
  Block* block = local.pop(wanted.index);
  if (!block) [[unlikely]] {
    block = SharedLists::instance().pop(wanted.index);
    if (!block) block = new_block(wanted);
    if (!block) {  // what other sizes have cached may be what is missing
      give_back_cached_memory();
      block = new_block(wanted);
    }
    if (!block) refuse_host_memory(bytes);
  }
  block->references.store(1, std::memory_order_relaxed);
  block->device = device;
  block->bytes = bytes;
  block->queue.store(queue, std::memory_order_relaxed);
  block->last_use.store(0, std::memory_order_relaxed);
  ASAN_UNPOISON_MEMORY_REGION(block->data, bytes);
  return block;
}

void cpu_copy(void* to, Device, const void* from, Device, std::size_t bytes, Queue*) { std::memmove(to, from, bytes); }
void cpu_synchronize(Device) {}
void cpu_enter(Device) {}
Queue* cpu_begin_call(Device) { return nullptr; }

}  // namespace

DeviceInterface& device_interface(Device::Type type) {
  static DeviceInterface devices[] = {
      {cpu_allocate, cpu_copy, cpu_synchronize, cpu_enter, cpu_begin_call, nullptr, nullptr, nullptr}, {}};
  return devices[static_cast<int>(type)];
}

void give_back_cached_memory() {
  FreeLists& local = local_lists();
  for (int index = 0; index < class_count; ++index)
    while (Block* block = local.pop(index)) system_free(block);
  SharedLists::instance().give_back();
}

static Storage* device_allocate(Device device, std::size_t bytes, Queue* queue) {
  DeviceInterface& memory = device_interface(device.type);
  if (!memory.allocate) throw Error("[allocate] device cuda is not available: its libraries have not been loaded");
  return memory.allocate(device, bytes, queue);
}
Storage* allocate(Device device, std::size_t bytes, Queue* queue) {
  const bool on_host = device.type == Device::Type::cpu;
  Storage* const storage = on_host ? cpu_allocate(device, bytes, queue) : device_allocate(device, bytes, queue);
  if (auto* const tell = told_of_storage.load(std::memory_order_relaxed)) [[unlikely]]
    tell(static_cast<std::int64_t>(storage->bytes));
  return storage;
}

void note_work(Queue* queue, std::initializer_list<std::span<Storage* const>> blocks) {
  const std::uint64_t number = queue->latest.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const std::span<Storage* const> list : blocks)
    for (Storage* storage : list) {
      if (!storage) continue;
      if (storage->queue.exchange(queue, std::memory_order_relaxed) != queue)
        storage->last_use.store(0, std::memory_order_relaxed);
      // Calls at once may share an argument: the later use stays.
      std::uint64_t last = storage->last_use.load(std::memory_order_relaxed);
      while (last < number && !storage->last_use.compare_exchange_weak(last, number, std::memory_order_relaxed))
        continue;
    }
}

void release(Storage* storage) noexcept {
  if (storage->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (auto* const tell = told_of_storage.load(std::memory_order_relaxed); tell && !storage->borrowed) [[unlikely]]
    tell(-static_cast<std::int64_t>(storage->bytes));
  storage->free(storage);
}

}  // namespace weft
