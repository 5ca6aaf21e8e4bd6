// What is free of a memory, step by step: the one rule by which temporaries and workspaces get their places. In: the
// steps in which bytes are in use. Out: the lowest place that is free in them.
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
  explicit Gaps(std::int64_t end = unlimited) : end_(end) {}

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
      at = std::max(at, block.end);
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
  std::int64_t end_;
  std::vector<Block> blocks_;  // by begin
};

}  // namespace weft
