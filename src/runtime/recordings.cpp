#include "runtime/recordings.hpp"

#include <algorithm>

#include "base/hash.hpp"

namespace weft::runtime {

bool Recordings::Entry::is_for(std::span<void* const> its_pointers, std::span<const std::int64_t> its_numbers) const {
  return std::equal(pointers.begin(), pointers.end(), its_pointers.begin(), its_pointers.end()) &&
         std::equal(numbers.begin(), numbers.end(), its_numbers.begin(), its_numbers.end());
}

bool Recordings::replay(std::span<void* const> pointers, std::span<const std::int64_t> numbers, Queue* queue) {
  ++calls_;
  for (Entry& entry : entries_) {
    if (!entry.is_for(pointers, numbers)) continue;
    entry.used = calls_;
    ++replayed_;
    entry.recording->replay(queue);
    return true;
  }
  return false;
}

// Recording takes as long as some dozens of launches: it must have come back once, and recordings must be used.
bool Recordings::is_worth_recording(std::span<void* const> pointers, std::span<const std::int64_t> numbers) {
  if (stopped_) return false;
  if (recorded_ > most_entries && replayed_ < 8 * recorded_) return false;
  const auto text = [](const auto& span) {
    return std::string_view(reinterpret_cast<const char*>(span.data()), span.size_bytes());
  };
  const std::uint64_t places = digest(text(pointers)).low ^ digest(text(numbers)).high;
  if (std::find(seen_.begin(), seen_.end(), places) != seen_.end()) return true;
  seen_[unseen_++ % seen_.size()] = places;
  return false;
}

void Recordings::add(std::span<void* const> pointers, std::span<const std::int64_t> numbers,
                     std::unique_ptr<RecordedWork> recording) {
  Entry entry{{pointers.begin(), pointers.end()}, {numbers.begin(), numbers.end()}, std::move(recording), calls_};
  ++recorded_;
  const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                       [](const Entry& a, const Entry& b) { return a.used < b.used; });
  if (entries_.size() < most_entries)
    entries_.push_back(std::move(entry));
  else
    *oldest = std::move(entry);
}

}  // namespace weft::runtime
