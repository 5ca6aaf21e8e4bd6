// What a plan puts on a device's queue, recorded. A call that finds everything where an earlier one did (the same
// pointers, the same sizes) replays the recording: one piece of work for the driver in place of one a step, or where
// steps between can't be recorded, one for each run of those that can. In: pointers and sizes of a call. Out: its
// recording, or whether it is worth one. Not for two threads at once: each frame of a plan has its own.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/storage.hpp"
#include "base/work.hpp"

namespace weft::runtime {

// Steps [first, last) of a plan: recorded as one, or always launched one by one.
struct Piece {
  std::size_t first, last;
  bool is_recorded;
};
// The steps in order. What is recorded are all runs of at least `least` steps that can be.
std::vector<Piece> divide(const std::vector<bool>& can_be_recorded, std::size_t least);

// Of a call: the pieces that are recorded, in order.
using Recording = std::vector<std::unique_ptr<RecordedWork>>;

class Recordings {
 public:
  // `at_once`: places are recorded when they are new, as long as there is room, and nothing but an error ends
  // recording.
  explicit Recordings(bool at_once) : at_once_(at_once) {}
  // Null where there is none. It is there until the next add().
  const Recording* find(std::span<void* const> pointers, std::span<const std::int64_t> numbers);
  // A call that has none: whether the next one like it is likely to come.
  bool is_worth_recording(std::span<void* const> pointers, std::span<const std::int64_t> numbers);
  void add(std::span<void* const> pointers, std::span<const std::int64_t> numbers, Recording recording);

  // A recording whose pointers are changed to those of calls that do not come back.
  struct Moving {
    std::vector<void*> pointers;  // as it is now
    std::vector<std::int64_t> numbers;
    Recording recording;
  };
  // Null where there is none for such numbers.
  Moving* moving(std::span<const std::int64_t> numbers);
  void note_moved() { ++moved_; }
  // A call that was not replayed: the pointers of the one before it, if it had the same numbers and a recording that
  // moves may be made; else none. They are these from here on.
  std::vector<void*> note_missed(std::span<void* const> pointers, std::span<const std::int64_t> numbers);
  void add_moving(std::span<void* const> pointers, std::span<const std::int64_t> numbers, Recording recording);
  void stop_moving() { moving_ = {}, moves_ = false; }  // a step can't be changed
  void stop() { stopped_ = true; }                      // nothing is worth recording from here on

 private:
  struct Entry {
    std::vector<void*> pointers;
    std::vector<std::int64_t> numbers;
    Recording recording;
    std::uint64_t used = 0;  // the call that used it last

    bool is_for(std::span<void* const> pointers, std::span<const std::int64_t> numbers) const;
  };
  // As many places as results of a loop change between. Who has no calls but these is recorded once for each.
  std::size_t most_entries() const { return at_once_ ? 16 : 4; }

  bool at_once_;
  std::vector<Entry> entries_;
  std::optional<Moving> moving_;
  std::vector<void*> missed_;
  std::vector<std::int64_t> missed_numbers_;
  std::uint64_t moved_ = 0, made_to_move_ = 0;
  bool moves_ = true;
  std::vector<std::uint64_t> seen_;  // digests of the latest calls that were not replayed, as many as entries
  std::uint64_t calls_ = 0, replayed_ = 0, recorded_ = 0, unseen_ = 0;
  bool stopped_ = false;
};

}  // namespace weft::runtime
