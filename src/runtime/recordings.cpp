#include "runtime/recordings.hpp"

#include <algorithm>
#include <utility>

#include "base/hash.hpp"

namespace weft::runtime {

std::vector<Piece> divide(const std::vector<bool>& can_be_recorded, std::size_t least) {
  const std::size_t steps = can_be_recorded.size();
  std::vector<Piece> pieces;
  for (std::size_t first = 0, last = 0; first < steps; first = last) {
    while (last < steps && can_be_recorded[last] == can_be_recorded[first]) ++last;
    const bool is_recorded = can_be_recorded[first] && last - first >= least;
    if (!is_recorded && !pieces.empty() && !pieces.back().is_recorded)
      pieces.back().last = last;
    else
      pieces.push_back({first, last, is_recorded});
  }
  return pieces;
}

bool Recordings::Entry::is_for(std::span<void* const> its_pointers, std::span<const std::int64_t> its_numbers) const {
  return std::equal(pointers.begin(), pointers.end(), its_pointers.begin(), its_pointers.end()) &&
         std::equal(numbers.begin(), numbers.end(), its_numbers.begin(), its_numbers.end());
}

const Recording* Recordings::find(std::span<void* const> pointers, std::span<const std::int64_t> numbers) {
  ++calls_;
  for (Entry& entry : entries_) {
    if (!entry.is_for(pointers, numbers)) continue;
    entry.used = calls_;
    ++replayed_;
    return &entry.recording;
  }
  if (moving_ && std::ranges::equal(moving_->numbers, numbers) && std::ranges::equal(moving_->pointers, pointers))
    return &moving_->recording;
  return nullptr;
}

// Recording takes as long as some dozens of launches: it must have come back once, and recordings must be used.
bool Recordings::is_worth_recording(std::span<void* const> pointers, std::span<const std::int64_t> numbers) {
  if (stopped_) return false;
  if (at_once_ && entries_.size() < most_entries()) return true;
  if (!at_once_ && recorded_ > most_entries() && replayed_ < 8 * recorded_) return false;
  const auto text = [](const auto& span) {
    return std::string_view(reinterpret_cast<const char*>(span.data()), span.size_bytes());
  };
  const std::uint64_t places = digest(text(pointers)).low ^ digest(text(numbers)).high;
  if (std::find(seen_.begin(), seen_.end(), places) != seen_.end()) return true;
  if (seen_.size() < most_entries()) seen_.resize(most_entries());
  seen_[unseen_++ % seen_.size()] = places;
  return false;
}

Recordings::Moving* Recordings::moving(std::span<const std::int64_t> numbers) {
  return moving_ && std::ranges::equal(moving_->numbers, numbers) ? &*moving_ : nullptr;
}

// As of others: what is made must be used.
std::vector<void*> Recordings::note_missed(std::span<void* const> pointers, std::span<const std::int64_t> numbers) {
  const bool may = moves_ && !stopped_ && (made_to_move_ < 4 || moved_ >= 8 * made_to_move_);
  const bool is_same = !missed_.empty() && std::ranges::equal(missed_numbers_, numbers);
  std::vector<void*> before = std::exchange(missed_, {pointers.begin(), pointers.end()});
  missed_numbers_.assign(numbers.begin(), numbers.end());
  return may && is_same ? before : std::vector<void*>();
}

void Recordings::add_moving(std::span<void* const> pointers, std::span<const std::int64_t> numbers,
                            Recording recording) {
  ++made_to_move_;
  moving_ = {{pointers.begin(), pointers.end()}, {numbers.begin(), numbers.end()}, std::move(recording)};
}

void Recordings::add(std::span<void* const> pointers, std::span<const std::int64_t> numbers, Recording recording) {
  Entry entry{{pointers.begin(), pointers.end()}, {numbers.begin(), numbers.end()}, std::move(recording), calls_};
  ++recorded_;
  const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                       [](const Entry& a, const Entry& b) { return a.used < b.used; });
  if (entries_.size() < most_entries())
    entries_.push_back(std::move(entry));
  else
    *oldest = std::move(entry);
}

}  // namespace weft::runtime
