#include "weft/stance.hpp"

#include "base/fail.hpp"
#include "trace/background.hpp"

namespace weft {
namespace detail {
namespace {

constexpr std::uint8_t none = UINT8_MAX;
constinit std::atomic<std::uint8_t> of_process{static_cast<std::uint8_t>(Stance::compile)};
thread_local constinit std::uint8_t of_thread = none;

}  // namespace

Stance stance() {
  return static_cast<Stance>(of_thread == none ? of_process.load(std::memory_order_relaxed) : of_thread);
}

void wait_compiled(Function* function) {
  background::wait(*function);
  std::string failure;
  {
    const std::lock_guard lock(process_mutex(LockOrder::functions));
    failure = std::exchange(function->background_failure, {});
  }
  if (!failure.empty() && function->options.on_compile_error == OnFailure::raise)
    throw_compile_error(title(*function), function->loc, failure.c_str());
}

}  // namespace detail

void set_stance(Stance stance) { detail::of_process.store(static_cast<std::uint8_t>(stance)); }
StanceScope::StanceScope(Stance stance) : saved_(std::exchange(detail::of_thread, static_cast<std::uint8_t>(stance))) {}
StanceScope::~StanceScope() { detail::of_thread = saved_; }

}  // namespace weft
