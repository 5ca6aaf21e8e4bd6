// Counts the heap's allocations of a thread, and lets one fail. For one file of a program: it replaces operator new.
#pragma once
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // g++ inlines some of the operators below, and not others
#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {
thread_local long allocations = -1;    // counted while not negative
thread_local long until_failure = -1;  // how many more succeed, while not negative; after that one fails
bool fails() {
  if (allocations >= 0) ++allocations;
  return until_failure >= 0 && until_failure-- == 0;
}
void* counted(std::size_t size) {
  if (fails()) throw std::bad_alloc();
  return std::malloc(size);
}
}  // namespace
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return fails() ? nullptr : std::malloc(size); }
void* aligned(std::size_t size, std::align_val_t alignment) {
  return memalign(static_cast<std::size_t>(alignment), size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  if (fails()) throw std::bad_alloc();
  return aligned(size, alignment);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return fails() ? nullptr : aligned(size, alignment);
}
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have one of their own
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return fails() ? nullptr : memalign(alignment, size);
}
#endif
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {
// Heap allocations of one call, after a few that may.
template <class F>
long allocations_of(F call) {
  for (int i = 0; i < 5; ++i) call();
  allocations = 0;
  call();
  long result = allocations;
  allocations = -1;
  return result;
}
}  // namespace
