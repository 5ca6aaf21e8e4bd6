// Runs a body on a thread whose stack has 256 KB: what recurses over a large graph crashes there. With ThreadSanitizer
// it has 2 MB, as the sanitizer keeps some 800 KB of its own there, and makes frames larger.
#pragma once
#include <doctest/doctest.h>
#include <pthread.h>

#include <cstddef>

namespace weft::test {

#ifdef __SANITIZE_THREAD__
inline constexpr std::size_t small_stack = 2 << 20;
#else
inline constexpr std::size_t small_stack = 256 << 10;
#endif

template <class Body>
void on_small_stack(Body body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, small_stack) == 0);
  pthread_t thread;
  auto start = [](void* body) -> void* {
    (*static_cast<Body*>(body))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, start, &body) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace weft::test
