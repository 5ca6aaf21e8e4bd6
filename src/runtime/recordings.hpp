// What a plan puts on a device's queue, recorded. A call that finds everything where an earlier one did (the same
// pointers, the same sizes) replays the recording: one piece of work for the driver in place of one a step. In:
// pointers and sizes of a call. Out: whether it has been replayed, or is worth recording. Not for two threads at once:
// each frame of a plan has its own.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/storage.hpp"
#include "base/work.hpp"

namespace weft::runtime {

class Recordings {
 public:
  bool replay(std::span<void* const> pointers, std::span<const std::int64_t> numbers, Queue* queue);
  // A call that was not replayed: whether the next one like it is likely to come.
  bool is_worth_recording(std::span<void* const> pointers, std::span<const std::int64_t> numbers);
  void add(std::span<void* const> pointers, std::span<const std::int64_t> numbers,
           std::unique_ptr<RecordedWork> recording);
  void stop() { stopped_ = true; }  // nothing is worth recording from here on

 private:
  struct Entry {
    std::vector<void*> pointers;
    std::vector<std::int64_t> numbers;
    std::unique_ptr<RecordedWork> recording;
    std::uint64_t used = 0;  // the call that used it last

    bool is_for(std::span<void* const> pointers, std::span<const std::int64_t> numbers) const;
  };
  static constexpr std::size_t most_entries = 4;  // as many places as results of a loop change between

  std::vector<Entry> entries_;
  std::array<std::uint64_t, most_entries> seen_{};  // digests of the latest calls that were not replayed
  std::uint64_t calls_ = 0, replayed_ = 0, recorded_ = 0, unseen_ = 0;
  bool stopped_ = false;
};

}  // namespace weft::runtime
