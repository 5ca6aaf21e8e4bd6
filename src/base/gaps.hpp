// What is free of a memory, step by step: the one rule by which temporaries and workspaces get their places. In: the
// steps in which bytes are in use. Out: the lowest place that is free in them; the results whose memory is free at
// first.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace weft {

// The first and the last step that has something; -1: none does.
struct Lifetime {
  int first = -1, last = -1;
  int leaves_at = -1, returns_at = -1;  // between these steps it takes no memory; -1: it always does

  // Whether both never take memory at once.
  bool is_apart_from(const Lifetime& other) const {
    const auto apart = [&](int begin, int end) {
      if (end < other.first || other.last < begin) return true;
      return other.leaves_at >= 0 && other.leaves_at < begin && end < other.returns_at;
    };
    return leaves_at < 0 ? apart(first, last) : apart(first, leaves_at) && apart(returns_at, last);
  }
};

class Gaps {
 public:
  static constexpr std::int64_t alignment = 64, unlimited = std::numeric_limits<std::int64_t>::max();
  // Places begin at multiples of `step`, which is one of `alignment`.
  explicit Gaps(std::int64_t end = unlimited, std::int64_t step = alignment) : end_(end), step_(step) {}

  // The lowest gap for so many bytes, in use in these steps from now on; -1 where none is before the end.
  std::int64_t take(std::int64_t bytes, const Lifetime& life) {
    const std::int64_t at = find(bytes, life);
    if (at > end_ - bytes) return -1;
    hold(at, bytes, life);
    return at;
  }
  // The lowest gap that fits, which may lie past the end.
  std::int64_t find(std::int64_t bytes, const Lifetime& life) const {
    std::int64_t at = 0;
    for (const Block& block : blocks_) {
      if (block.life.is_apart_from(life)) continue;
      if (block.begin - at >= rounded(bytes)) break;
      at = std::max(at, (block.end + step_ - 1) / step_ * step_);
    }
    return at;
  }
  // In use in these steps, whatever else lies there.
  void hold(std::int64_t at, std::int64_t bytes, const Lifetime& life) {
    const Block placed{at, at + rounded(bytes), life};
    blocks_.insert(std::upper_bound(blocks_.begin(), blocks_.end(), placed,
                                    [](const Block& x, const Block& y) { return x.begin < y.begin; }),
                   placed);
  }
  // Whether the first bytes are free in these steps.
  bool is_free(std::int64_t bytes, const Lifetime& life) const {
    return std::ranges::all_of(
        blocks_, [&](const Block& block) { return block.begin >= bytes || block.life.is_apart_from(life); });
  }
  // Of what is over before this step nobody asks again.
  void forget_before(int step) {
    std::erase_if(blocks_, [&](const Block& block) { return block.life.last < step; });
  }

 private:
  struct Block {
    std::int64_t begin, end;
    Lifetime life;
  };
  static std::int64_t rounded(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
  std::int64_t end_, step_;
  std::vector<Block> blocks_;  // by begin
};

// A result with memory of its own: until the step `first` uses its buffer, others may lie there.
struct Vacancy {
  int result;
  std::size_t buffer;
  int first;
};
// Of a schedule or a plan: the results that take no argument's memory, in the order of their first steps.
template <class Steps, class Buffers, class Donations>
std::vector<Vacancy> find_vacancies(const Steps& steps, const Buffers& buffers, const Donations& donations) {
  using Kind = typename Buffers::value_type::Kind;
  std::vector<bool> closed;
  const auto close = [&](int result) {  // false where it was
    const auto index = static_cast<std::size_t>(result);
    if (index >= closed.size()) closed.resize(index + 1, false);
    const bool was_open = !closed[index];
    closed[index] = true;
    return was_open;
  };
  for (const auto& donation : donations) close(donation.result);
  std::vector<Vacancy> vacancies;
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (const int b : steps[s].buffers) {
      const auto index = static_cast<std::size_t>(b);
      const auto& buffer = buffers[index];
      if (buffer.kind == Kind::result && close(buffer.index))
        vacancies.push_back({buffer.index, index, static_cast<int>(s)});
    }
  return vacancies;
}

}  // namespace weft
