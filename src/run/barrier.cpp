#include "run/barrier.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::run {

namespace {

// Of a fixed size: there is room for a message when memory has ended, and nothing to destroy when a thread ends.
constexpr std::size_t room = 4096;
thread_local char message[room];

weft_status say(weft_status status, const char* text) noexcept {
  const std::size_t size = std::min(std::strlen(text), room - 1);
  std::memcpy(message, text, size);
  message[size] = '\0';
  return status;
}

}  // namespace

weft_status guarded(void (*body)(void* context), void* context) noexcept {
  try {
    body(context);
    return WEFT_OK;
  } catch (const Refusal& refusal) {
    return say(refusal.status, refusal.message.c_str());
  } catch (const OutOfMemory& error) {
    return say(WEFT_NO_MEMORY, error.what());
  } catch (const std::bad_alloc&) {
    return say(WEFT_NO_MEMORY, "memory has ended");
  } catch (const Error& error) {
    return say(WEFT_FAILED, error.what());
  } catch (const std::exception& error) {
    return say(WEFT_INTERNAL, error.what());
  } catch (...) {
    return say(WEFT_INTERNAL, "an unknown exception");
  }
}

}  // namespace weft::run

extern "C" {

int32_t weft_run_abi() { return WEFT_RUN_ABI; }
const char* weft_run_message() { return weft::run::message; }

}  // extern "C"
