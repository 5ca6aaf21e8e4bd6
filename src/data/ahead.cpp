// Threads that make the elements of a pass ahead of the loop that takes them.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "weft/detail/data_stages.hpp"

namespace weft::data::detail {
namespace {

struct Count {
  std::atomic<std::int64_t> number = 0;
  std::atomic<bool> warned = false;
};
Count* count_of(const Shared& shared) { return static_cast<Count*>(const_cast<void*>(shared.object())); }

// Counts the element whose making threw this; throws it where it must not be skipped.
void skip(const std::exception_ptr& error, const Shared& skipped, Loc loc) {
  Count* const count = count_of(skipped);
  if (!count) std::rethrow_exception(error);
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& reason) {
    count->number.fetch_add(1);
    if (count->warned.exchange(true)) return;
    logging::warn_once(concat_text("[data] skip_bad leaves out a sample that throws (", reason.what(), "), at ",
                                   to_string(loc), ". Others that throw are left out without a warning; ",
                                   "Pipeline::skipped() counts them all"));
  }
}
// At the end of a pass without elements.
void check_any(const Shared& skipped, Loc loc) {
  if (Count* const count = count_of(skipped); count && count->number > 0)
    fail("data", loc, "all ", count->number.load(), " samples are bad: a warning says what the first one threw");
}

}  // namespace

Shared count_skipped() {
  return Shared(new Count, [](const void* count) { delete static_cast<const Count*>(count); });
}
std::int64_t skipped(const Shared& count) { return count.object() ? count_of(count)->number.load() : 0; }

struct Ahead::State {
  struct Slot {
    void* element = nullptr;
    std::exception_ptr error;
    bool ready = false;
  };

  Source source;
  Loc loc;
  pid_t process = getpid();
  std::mutex mutex;
  std::condition_variable room, made;
  std::vector<Slot> slots;           // of the element i: i % size
  std::int64_t next = 0, taken = 0;  // to be made; to be taken
  std::exception_ptr failed;         // what has been thrown to who takes
  bool is_over = false;              // the source had no more
  bool any = false;                  // whether one has been taken
  bool stopping = false;
  Shared skipped;  // null: what is thrown ends the pass
  std::vector<std::thread> threads;

  Slot& slot(std::int64_t i) { return slots[static_cast<std::size_t>(i) % slots.size()]; }
  bool has_room() const { return next < taken + static_cast<std::int64_t>(slots.size()); }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] { return stopping || next >= source.count || is_over || has_room(); });
      if (stopping || next >= source.count || is_over) return;
      const std::int64_t index = next++;
      lock.unlock();
      void* element = nullptr;
      std::exception_ptr error;
      try {
        element = source.make(source.pass, index);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      is_over |= !element && !error;
      slot(index) = {element, std::move(error), true};
      made.notify_one();
    }
  }
  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    room.notify_all();
    for (std::thread& thread : threads) thread.join();
    for (Slot& each : slots)
      if (each.element) source.drop(each.element);
  }
};

Ahead::Ahead(const Source& source, int threads, int depth, const Shared& skipped, Loc loc)
    : state_(new State{.source = source, .loc = loc, .skipped = skipped}) {
  if (Count* const count = count_of(skipped)) count->number = 0;
  state_->slots.resize(static_cast<std::size_t>(std::max(depth, threads)));
  try {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(threads, source.count); ++i)
      state_->threads.emplace_back([state = state_] { state->work(); });
  } catch (const std::system_error& reason) {
    state_->stop();
    delete state_;
    fail("prefetch", loc, "a thread can't be started: ", reason.what());
  }
}
Ahead::Ahead(const Source& source, int threads, int depth, Loc loc)
    : Ahead(source, threads, depth, Shared(nullptr, nullptr), loc) {}
Ahead::~Ahead() {
  // In a child of the process the threads are not there, and a lock may be held for ever: its memory is left alone.
  if (getpid() != state_->process) return;
  state_->stop();
  delete state_;
}

void* Ahead::take() const {
  if (getpid() != state_->process)
    fail("prefetch", state_->loc, "the process forked: its child must begin a pass of its own");
  if (state_->failed) std::rethrow_exception(state_->failed);
  std::unique_lock lock(state_->mutex);
  try {
    while (state_->taken < state_->source.count) {
      State::Slot& slot = state_->slot(state_->taken);
      state_->made.wait(lock, [&] { return slot.ready; });
      if (slot.error)
        skip(slot.error, state_->skipped, state_->loc);
      else if (!slot.element)
        break;  // there are no more
      ++state_->taken;
      void* const element = std::exchange(slot, {}).element;
      state_->room.notify_one();
      if (!element) continue;  // skipped
      state_->any = true;
      return element;
    }
    if (!state_->any) check_any(state_->skipped, state_->loc);
    return nullptr;
  } catch (...) {
    state_->failed = std::current_exception();
    throw;
  }
}

}  // namespace weft::data::detail
