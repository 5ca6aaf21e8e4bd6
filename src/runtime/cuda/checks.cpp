#include "runtime/cuda/checks.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/per_thread.hpp"
#include "runtime/cuda/device.hpp"

namespace weft::runtime::cuda {
namespace {

constexpr std::size_t most_words = 4096;  // 16 KB of each device, 256 KB of the host for it

std::size_t word_of(std::uint64_t maker) { return maker % most_words; }

// Threads that use devices have numbers. Of the numbers that have one word, at most one is a living thread's. A new
// thread has the first free word: recordings of calls name it (runtime/recordings.hpp).
constinit std::atomic<std::uint64_t> next_round = 1;
constinit std::atomic<bool> is_living[most_words] = {};

std::uint64_t new_maker() noexcept {
  for (std::size_t word = 0; word < most_words; ++word)
    if (!is_living[word].load(std::memory_order_relaxed) && !is_living[word].exchange(true, std::memory_order_acquire))
      return next_round.fetch_add(1, std::memory_order_relaxed) * most_words + word;
  return 0;
}

struct Maker {
  std::uint64_t number = new_maker();
  ~Maker() {
    if (number != 0) is_living[word_of(number)].store(false, std::memory_order_release);
  }
};
std::uint64_t this_maker() {
  const std::uint64_t maker = per_thread<Maker>().number;
  if (maker == 0) fail("cuda", {}, "more than ", most_words, " threads use devices at once");
  return maker;
}

class Messages {
 public:
  std::int32_t number(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const auto [found, fresh] = numbers_.emplace(text, static_cast<std::int32_t>(texts_.size()) + 1);
    if (fresh) texts_.push_back(text);
    return found->second;
  }
  std::string text(std::int32_t number) {
    const std::lock_guard lock(mutex_);
    return texts_.at(static_cast<std::size_t>(number) - 1);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::int32_t> numbers_;
  std::vector<std::string> texts_;
};
Messages& messages() {
  static constinit Lazy<Messages> all;
  return all.get();
}

// What checks of threads have found that ended before they were told, by the thread's number.
class EndedFailures {
 public:
  void add(std::uint64_t maker, std::int32_t number) {
    const std::lock_guard lock(mutex_);
    if (numbers_.size() == most_kept) numbers_.erase(numbers_.begin());
    numbers_.emplace(maker, number);
    any_.store(true, std::memory_order_release);
  }
  std::int32_t find(std::uint64_t maker) {
    if (!any_.load(std::memory_order_acquire)) return 0;
    const std::lock_guard lock(mutex_);
    const auto found = numbers_.find(maker);
    return found == numbers_.end() ? 0 : found->second;
  }

 private:
  static constexpr std::size_t most_kept = 1000;
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<std::uint64_t, std::int32_t> numbers_;
};
EndedFailures& ended_failures() {
  static constinit Lazy<EndedFailures> all;
  return all.get();
}

Pointer on_device(const CheckWords& words, std::size_t word) { return words.on_device + word * sizeof(std::int32_t); }

// What the word is set to, or 0. Kernels that were queued in the meantime, and write nothing while it is set, have
// left.
std::int32_t settled(DeviceState& state, std::size_t word) {
  check(driver().cuStreamSynchronize(state.queue.stream), "cuStreamSynchronize");
  return state.check_words.on_host[word];
}
void clear(DeviceState& state, std::size_t word) {
  state.check_words.on_host[word] = 0;
  check(driver().cuMemsetD32Async(on_device(state.check_words, word), 0, 1, state.queue.stream), "cuMemsetD32Async");
}

// The index of this thread's word. A thread that had it before has ended.
std::size_t own_word(DeviceState& state) {
  const std::uint64_t maker = this_maker();
  const std::size_t word = word_of(maker);
  CheckWords::User& user = state.check_words.users[word];
  if (const std::uint64_t before = user.maker.load(std::memory_order_relaxed); before != maker) [[unlikely]] {
    const bool may_be_set = user.has_queued.exchange(false) || state.check_words.on_host[word] != 0;
    const std::int32_t number = may_be_set ? settled(state, word) : 0;
    if (number != 0) ended_failures().add(before, number);
    user.maker.store(maker, std::memory_order_release);  // before it is cleared: who looks finds one or the other
    if (number != 0) clear(state, word);
  }
  return word;
}

std::atomic<void (*)(Storage*)> free_of_blocks = nullptr;  // set when a device is opened, read by threads of others

DeviceBlock* block_of(Storage* storage) {
  return storage && storage->free == free_of_blocks.load(std::memory_order_relaxed) ? static_cast<DeviceBlock*>(storage)
                                                                                    : nullptr;
}

void require_good_block(Storage& storage) {
  DeviceBlock* const block = block_of(&storage);
  std::uint64_t maker = block ? block->maker.load(std::memory_order_acquire) : 0;
  if (maker == 0) return;
  DeviceState& state = use(block->device);
  if (maker == this_maker()) {
    throw_failed_check(state, /*waits=*/true);
  } else {
    // The word stays set: its own thread is told too.
    const bool is_of_maker = state.check_words.users[word_of(maker)].maker.load(std::memory_order_acquire) == maker;
    const std::int32_t number = is_of_maker ? state.check_words.on_host[word_of(maker)] : ended_failures().find(maker);
    if (number != 0) throw Error(messages().text(number).c_str());
  }
  block->maker.compare_exchange_strong(maker, 0, std::memory_order_relaxed);
}

// A check that may still fail is told with results on its own device: its word is there. Before a result is made on
// another device it is waited for.
void note_call(std::span<Storage* const> arguments, std::span<Storage* const> results, bool pending, bool settles) {
  const std::uint64_t own = this_maker();
  const auto reaches_others = [&](const DeviceBlock& argument) {
    return std::ranges::any_of(results, [&](Storage* result) {
      const DeviceBlock* const block = block_of(result);
      return block && block->device != argument.device;
    });
  };
  const Device* waited = nullptr;  // arguments of one call are on one device, of a plan in parts on several
  for (Storage* const argument : arguments) {
    DeviceBlock* const block = block_of(argument);
    const std::uint64_t maker = block ? block->maker.load(std::memory_order_relaxed) : 0;
    if (maker == 0) continue;
    if (maker == own && !settles && !reaches_others(*block)) {
      pending = true;
      continue;
    }
    if (!waited || *waited != block->device) wait(block->device);
    waited = &block->device;
    require_good_block(*block);
  }
  for (Storage* const result : results)
    if (DeviceBlock* const block = block_of(result)) block->maker.store(pending ? own : 0, std::memory_order_release);
}

}  // namespace

void CheckWords::open(Stream* stream) {
  constexpr std::size_t bytes = most_words * sizeof(std::int32_t);
  constexpr unsigned portable_and_mapped = 3;
  check(driver().cuMemAlloc_v2(&on_device, bytes), "cuMemAlloc");
  void* memory = nullptr;
  check(driver().cuMemHostAlloc(&memory, bytes, portable_and_mapped), "cuMemHostAlloc");
  on_host = static_cast<volatile std::int32_t*>(memory);
  for (std::size_t word = 0; word < most_words; ++word) on_host[word] = 0;
  users = std::make_unique<User[]>(most_words);
  check(driver().cuMemsetD32Async(on_device, 0, most_words, stream), "cuMemsetD32Async");
}

void* own_check_word(DeviceState& state) {
  return reinterpret_cast<void*>(on_device(state.check_words, own_word(state)));
}

void throw_failed_check(DeviceState& state, bool waits) {
  const std::size_t own = own_word(state);
  if (state.check_words.on_host[own] == 0) [[likely]] {
    state.check_words.users[own].has_queued.store(!waits, std::memory_order_relaxed);
    return;
  }
  const std::int32_t number = settled(state, own);
  clear(state, own);
  throw Error(messages().text(number).c_str());
}

std::int32_t error_number(const std::string& message) { return messages().number(message); }

void register_failed_checks(void (*free)(Storage*)) {
  static constexpr FailedChecks checks{note_call, require_good_block, wait};
  free_of_blocks.store(free, std::memory_order_relaxed);
  failed_checks.store(&checks, std::memory_order_release);
}

}  // namespace weft::runtime::cuda
