// Where exceptions end: a status, and a message for the thread.
#pragma once
#include <string>

#include "base/fail.hpp"
#include "weft_run.h"

namespace weft::run {

// What a caller of the C interface did wrong, or what it asked for and can't have.
struct Refusal {
  weft_status status;
  std::string message;
};

template <class... Parts>
[[noreturn]] void refuse(weft_status status, const Parts&... parts) {
  throw Refusal{status, concat_text(parts...)};
}
template <class Pointer>
Pointer* require(const char* function, const char* name, Pointer* pointer) {
  if (!pointer) refuse(WEFT_BAD_CALL, "[", function, "] ", name, " is a null pointer");
  return pointer;
}

// Runs `body`, which is given `context`.
weft_status guarded(void (*body)(void* context), void* context) noexcept;
template <class Body>
weft_status guarded(Body body) noexcept {
  return guarded([](void* context) { (*static_cast<Body*>(context))(); }, &body);
}

}  // namespace weft::run
