// Memory: lifetimes of temporaries over the order of steps, offsets in one arena, and which results may be written into
// which arguments. In: steps in order. Out: offsets, arena size, donations. Invariant: two temporaries share bytes only
// when one is dead before the other is written.
#include <algorithm>
#include <map>
#include <vector>

#include "schedule/schedule.hpp"

namespace weft {
namespace {

constexpr std::int64_t alignment = 64;

Dim bytes_of(const ScheduleBuffer& buffer) {
  Dim bytes = storage_bytes(info(buffer.dtype), buffer.elements);
  return (bytes + Dim(alignment - 1)) / Dim(alignment) * Dim(alignment);
}

struct Lifetime {
  int first = -1, last = -1;
};

std::vector<Lifetime> lifetimes(const Schedule& schedule) {
  std::vector<Lifetime> result(schedule.buffers.size());
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (int buffer : schedule.steps[s].buffers) {
      Lifetime& life = result[static_cast<std::size_t>(buffer)];
      if (life.first < 0) life.first = static_cast<int>(s);
      life.last = static_cast<int>(s);
    }
  return result;
}

// Static sizes: the lowest gap that fits. Symbolic sizes: a block of the same expression that is free, else a new one
// behind everything.
void place(Schedule& schedule, const std::vector<Lifetime>& lives) {
  struct Block {
    std::int64_t begin, end;
    int last;
  };
  std::vector<Block> live;  // static blocks, by begin
  std::int64_t top = 0;
  struct Symbolic {
    Dim bytes, offset;
    int last;
  };
  std::vector<Symbolic> symbolic;
  Dim symbolic_bytes = 0;
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < schedule.buffers.size(); ++b)
    if (schedule.buffers[b].kind == ScheduleBuffer::Kind::temporary && lives[b].first >= 0) order.push_back(b);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lives[a].first < lives[b].first; });
  std::vector<std::size_t> symbolic_buffers;
  for (std::size_t b : order) {
    ScheduleBuffer& buffer = schedule.buffers[b];
    Dim bytes = bytes_of(buffer);
    if (!bytes.is_constant()) {
      auto free = std::find_if(symbolic.begin(), symbolic.end(),
                               [&](const Symbolic& s) { return s.bytes.same(bytes) && s.last < lives[b].first; });
      if (free == symbolic.end()) {
        symbolic.push_back({bytes, symbolic_bytes, 0});
        symbolic_bytes = symbolic_bytes + bytes;
        free = symbolic.end() - 1;
      }
      free->last = lives[b].last;
      buffer.offset = free->offset;
      symbolic_buffers.push_back(b);
      continue;
    }
    std::erase_if(live, [&](const Block& block) { return block.last < lives[b].first; });
    std::int64_t at = 0;
    for (const Block& block : live) {
      if (block.begin - at >= bytes.constant()) break;
      at = std::max(at, block.end);
    }
    Block placed{at, at + bytes.constant(), lives[b].last};
    live.insert(std::upper_bound(live.begin(), live.end(), placed,
                                 [](const Block& x, const Block& y) { return x.begin < y.begin; }),
                placed);
    top = std::max(top, placed.end);
    buffer.offset = at;
  }
  for (std::size_t b : symbolic_buffers) schedule.buffers[b].offset = schedule.buffers[b].offset + Dim(top);
  schedule.arena_bytes = symbolic_bytes + Dim(top);
}

void find_donations(Schedule& schedule, const std::vector<Lifetime>& lives) {
  int last_check = -1;
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    if (schedule.steps[s].payload->may_fail()) last_check = static_cast<int>(s);
  std::vector<bool> taken(schedule.buffers.size(), false);
  for (std::size_t r = 0; r < schedule.buffers.size(); ++r) {
    const ScheduleBuffer& result = schedule.buffers[r];
    if (result.kind != ScheduleBuffer::Kind::result || lives[r].first < 0 || lives[r].first <= last_check) continue;
    const Step& writer = schedule.steps[static_cast<std::size_t>(lives[r].first)];
    for (int a : writer.buffers) {
      auto index = static_cast<std::size_t>(a);
      const ScheduleBuffer& argument = schedule.buffers[index];
      if (argument.kind != ScheduleBuffer::Kind::argument || taken[index] || argument.dtype != result.dtype ||
          !argument.elements.same(result.elements) || lives[index].last != lives[r].first)
        continue;
      if (!writer.payload->in_place(a, static_cast<int>(r))) continue;
      taken[index] = true;
      schedule.donations.push_back({argument.index, result.index});
      break;
    }
  }
}

}  // namespace

void plan_memory(Schedule& schedule) {
  std::vector<Lifetime> lives = lifetimes(schedule);
  place(schedule, lives);
  find_donations(schedule, lives);
}

}  // namespace weft
