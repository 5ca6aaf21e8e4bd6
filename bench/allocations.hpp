// Counts the heap's allocations of the whole program, for one that has a single source file.
#pragma once
#include <cerrno>
#include <cstddef>

// Every way to the heap is counted, operator new's included.
static long allocations = 0;
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t size) { return ++allocations, __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) { return ++allocations, __libc_calloc(count, size); }
void* realloc(void* old, std::size_t size) { return ++allocations, __libc_realloc(old, size); }
void* memalign(std::size_t alignment, std::size_t size) { return ++allocations, __libc_memalign(alignment, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  *result = memalign(alignment, size);
  return *result ? 0 : ENOMEM;
}
}
