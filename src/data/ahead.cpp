// Threads that make the elements of a pass ahead of the loop that takes them.
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/fail.hpp"
#include "weft/detail/data_stages.hpp"

namespace weft::data::detail {

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
  bool stopping = false;
  std::vector<std::thread> threads;

  Slot& slot(std::int64_t i) { return slots[static_cast<std::size_t>(i) % slots.size()]; }
  bool has_room() const { return next < taken + static_cast<std::int64_t>(slots.size()); }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] { return stopping || next >= source.count || has_room(); });
      if (stopping || next >= source.count) return;
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

Ahead::Ahead(const Source& source, int threads, int depth, Loc loc) : state_(new State{source, loc}) {
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
  State::Slot& slot = state_->slot(state_->taken);
  state_->made.wait(lock, [&] { return slot.ready; });
  if (slot.error) {
    state_->failed = slot.error;
    std::rethrow_exception(slot.error);
  }
  ++state_->taken;
  void* const element = std::exchange(slot, {}).element;
  lock.unlock();
  state_->room.notify_one();
  return element;
}

}  // namespace weft::data::detail
