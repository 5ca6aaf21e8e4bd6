// Memory: lifetimes of temporaries over the order of steps, offsets in one arena, and which results may be written into
// which arguments. In: steps in order. Out: offsets, arena size, donations. Invariant: two temporaries share bytes only
// when one is dead before the other is written, or is overwritten element by element by the step that reads it last.
#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "loop/analysis.hpp"
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

// The lowest gap that fits, for one buffer after the other. Returns how many bytes they take in all.
std::int64_t place_static(Schedule& schedule, const std::vector<Lifetime>& lives, const std::vector<std::size_t>& order,
                          bool by_time) {
  struct Block {
    std::int64_t begin, end;
    int first, last;
  };
  std::vector<Block> live;  // by begin
  std::int64_t top = 0;
  for (const std::size_t b : order) {
    if (by_time) std::erase_if(live, [&](const Block& block) { return block.last < lives[b].first; });
    const std::int64_t bytes = bytes_of(schedule.buffers[b]).constant();
    std::int64_t at = 0;
    for (const Block& block : live) {
      if (block.last < lives[b].first || block.first > lives[b].last) continue;
      if (block.begin - at >= bytes) break;
      at = std::max(at, block.end);
    }
    const Block placed{at, at + bytes, lives[b].first, lives[b].last};
    live.insert(std::upper_bound(live.begin(), live.end(), placed,
                                 [](const Block& x, const Block& y) { return x.begin < y.begin; }),
                placed);
    top = std::max(top, placed.end);
    schedule.buffers[b].offset = at;
  }
  return top;
}

// By buffer the one whose memory it takes, or -1: of the large temporaries that a step writes, a temporary that the
// step reads last and may overwrite.
std::vector<int> find_hosts(const Schedule& schedule, const std::vector<Lifetime>& lives) {
  constexpr std::int64_t least = 1 << 20;  // bytes; of less there is enough, and who shares none can run side by side
  std::vector<int> hosts(schedule.buffers.size(), -1);
  std::vector<bool> taken(schedule.buffers.size(), false);
  const auto temporary = [&](int b) -> const ScheduleBuffer* {
    const ScheduleBuffer& buffer = schedule.buffers[static_cast<std::size_t>(b)];
    const Dim bytes = bytes_of(buffer);
    const bool is_large = bytes.is_constant() && bytes.constant() >= least;
    return buffer.kind == ScheduleBuffer::Kind::temporary && is_large ? &buffer : nullptr;
  };
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const int r = step.buffers[i];
      const ScheduleBuffer* const result = temporary(r);
      if (!writes[i] || !result || lives[static_cast<std::size_t>(r)].first != static_cast<int>(s)) continue;
      for (std::size_t j = 0; j < writes.size(); ++j) {
        const int a = step.buffers[j];
        const auto index = static_cast<std::size_t>(a);
        const ScheduleBuffer* const read = temporary(a);
        if (writes[j] || !read || taken[index] || lives[index].last != static_cast<int>(s) ||
            !bytes_of(*read).same(bytes_of(*result)) || read->dtype != result->dtype || !step.payload->in_place(a, r))
          continue;
        hosts[static_cast<std::size_t>(r)] = a;
        taken[index] = true;
        break;
      }
    }
  }
  return hosts;
}

// Static sizes: in the order of their first use, the largest first, or those first that are large for long, whichever
// takes the least memory. What has a host lies where that does, which lives as long as both. Returns how many bytes the
// static ones take.
// Symbolic sizes: a free block of the same expression, else a new one after everything.
std::int64_t place(Schedule& schedule, std::vector<Lifetime> lives, const std::vector<int>& hosts) {
  const auto host_of = [&](std::size_t b) {
    while (hosts[b] >= 0) b = static_cast<std::size_t>(hosts[b]);
    return b;
  };
  for (std::size_t b = 0; b < lives.size(); ++b) {
    Lifetime& life = lives[host_of(b)];
    life.last = std::max(life.last, lives[b].last);
  }
  struct Symbolic {
    Dim bytes, offset;
    int last;
  };
  std::vector<Symbolic> symbolic;
  Dim symbolic_bytes = 0;
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < schedule.buffers.size(); ++b)
    if (schedule.buffers[b].kind == ScheduleBuffer::Kind::temporary && lives[b].first >= 0 && hosts[b] < 0)
      order.push_back(b);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lives[a].first < lives[b].first; });
  std::vector<std::size_t> symbolic_buffers, static_buffers;
  for (std::size_t b : order) {
    ScheduleBuffer& buffer = schedule.buffers[b];
    Dim bytes = bytes_of(buffer);
    if (bytes.is_constant()) {
      static_buffers.push_back(b);
      continue;
    }
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
  }
  std::int64_t top = place_static(schedule, lives, static_buffers, true);
  constexpr std::size_t most_compared = 4096;  // each with each
  if (static_buffers.size() <= most_compared) {
    std::vector<Dim> offsets;
    const auto weight = [&](std::size_t b, bool long_lives) {
      const auto bytes = static_cast<double>(bytes_of(schedule.buffers[b]).constant());
      return long_lives ? bytes * (lives[b].last - lives[b].first + 1) : bytes;
    };
    const auto keep = [&] {
      offsets.clear();
      for (const std::size_t b : static_buffers) offsets.push_back(schedule.buffers[b].offset);
    };
    keep();
    for (const bool long_lives : {false, true}) {
      std::vector<std::size_t> heaviest = static_buffers;
      std::stable_sort(heaviest.begin(), heaviest.end(),
                       [&](std::size_t a, std::size_t b) { return weight(a, long_lives) > weight(b, long_lives); });
      const std::int64_t bytes = place_static(schedule, lives, heaviest, false);
      if (bytes < top) top = bytes, keep();
    }
    for (std::size_t i = 0; i < offsets.size(); ++i) schedule.buffers[static_buffers[i]].offset = offsets[i];
  }
  for (std::size_t b : symbolic_buffers) schedule.buffers[b].offset = schedule.buffers[b].offset + Dim(top);
  for (std::size_t b = 0; b < hosts.size(); ++b)
    if (hosts[b] >= 0) schedule.buffers[b].offset = schedule.buffers[host_of(b)].offset;
  schedule.arena_bytes = symbolic_bytes + Dim(top);
  return top;
}

// A temporary that its last reader would copy into a result lies in the result from the start. So a chain of updates
// is written in one place, and that may be an argument's. Kernels copy nothing.
void place_in_results(Schedule& schedule) {
  const std::vector<Lifetime> lives = lifetimes(schedule);
  for (std::size_t s = schedule.steps.size(); s-- > 0;) {
    const Step& step = schedule.steps[s];
    if (step.payload->kernel()) continue;
    for (const int r : step.buffers) {
      const ScheduleBuffer& result = schedule.buffers[static_cast<std::size_t>(r)];
      if (result.kind != ScheduleBuffer::Kind::result ||
          lives[static_cast<std::size_t>(r)].first != static_cast<int>(s))
        continue;
      for (const int a : step.buffers) {
        ScheduleBuffer& given = schedule.buffers[static_cast<std::size_t>(a)];
        if (given.kind == ScheduleBuffer::Kind::temporary && given.strides.empty() && given.dtype == result.dtype &&
            given.elements.same(result.elements) && lives[static_cast<std::size_t>(a)].last == static_cast<int>(s) &&
            step.payload->in_place(a, r))
          given.kind = ScheduleBuffer::Kind::result, given.index = result.index;
      }
    }
  }
}

class Donations {
 public:
  Donations(Schedule& schedule, const std::vector<Lifetime>& lives)
      : schedule_(schedule), lives_(lives), taken_(schedule.buffers.size(), false) {
    for (std::size_t s = 0; s < schedule.steps.size(); ++s)
      if (schedule.steps[s].payload->may_fail()) last_check_ = static_cast<int>(s);
  }

  void find(std::span<const Update> updates) {
    for (const Update& update : updates)
      for_each_result([&](std::size_t result, int argument) {
        return schedule_.buffers[result].index == update.output &&
               schedule_.buffers[static_cast<std::size_t>(argument)].index == update.input;
      });
    for_each_result([](std::size_t, int) { return true; });
  }

 private:
  // Results that have no memory yet take that of the first argument that will do.
  template <class Allowed>
  void for_each_result(Allowed allowed) {
    for (std::size_t r = 0; r < schedule_.buffers.size(); ++r) {
      const ScheduleBuffer& result = schedule_.buffers[r];
      if (result.kind != ScheduleBuffer::Kind::result || taken_[r] || lives_[r].first < 0 ||
          lives_[r].first <= last_check_)
        continue;
      for (const int a : schedule_.steps[static_cast<std::size_t>(lives_[r].first)].buffers) {
        if (!allowed(r, a) || !may_take(r, a)) continue;
        taken_[r] = taken_[static_cast<std::size_t>(a)] = true;
        schedule_.donations.push_back({schedule_.buffers[static_cast<std::size_t>(a)].index, result.index});
        break;
      }
    }
  }
  bool may_take(std::size_t r, int a) const {
    const auto index = static_cast<std::size_t>(a);
    const ScheduleBuffer &argument = schedule_.buffers[index], &result = schedule_.buffers[r];
    if (argument.kind != ScheduleBuffer::Kind::argument || taken_[index] || argument.dtype != result.dtype ||
        !argument.elements.same(result.elements) || lives_[index].last != lives_[r].first)
      return false;
    const Payload& step = *schedule_.steps[static_cast<std::size_t>(lives_[r].first)].payload;
    return step.in_place(a, static_cast<int>(r)) && !reads_at_values(step, a);
  }
  // Whether the kernel reads the argument at an index that a value decides, as a loss reads a label's logit. A caller
  // gives such up rarely, and on a device a donation makes a kernel ask for the error word.
  static bool reads_at_values(const Payload& step, int argument) {
    const loop::Kernel* const kernel = step.kernel();
    return kernel && std::ranges::any_of(kernel->body, [&](const loop::Instruction& it) {
             return it.kind == loop::Kind::load &&
                    kernel->buffers[static_cast<std::size_t>(it.buffer)].value == argument &&
                    !loop::values_in(it.index).empty();
           });
  }

  Schedule& schedule_;
  const std::vector<Lifetime>& lives_;
  std::vector<bool> taken_;
  int last_check_ = -1;
};

// The buffers of a step with one more: of each set, where it is a table.
std::vector<int> with_buffer(const Step& step, std::size_t buffers_of_a_set, int buffer) {
  std::vector<int> all;
  for (std::size_t i = 0; i < step.buffers.size(); ++i) {
    all.push_back(step.buffers[i]);
    if ((i + 1) % buffers_of_a_set == 0) all.push_back(buffer);
  }
  return all;
}

// On a device: what donations write is not written once a check has failed.
void predicate_donations(Schedule& schedule) {
  const auto is_check = [](const Step& step) { return step.payload->is_check(); };
  if (std::none_of(schedule.steps.begin(), schedule.steps.end(), is_check)) return;
  const int error = static_cast<int>(schedule.buffers.size());
  schedule.buffers.push_back({ScheduleBuffer::Kind::error, 0, DType::i32, 1});
  const auto results_of = [&](const Step& step) {
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    std::vector<int> results;
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const ScheduleBuffer& it = schedule.buffers[static_cast<std::size_t>(step.buffers[i])];
      if (writes[i] && it.kind == ScheduleBuffer::Kind::result) results.push_back(it.index);
    }
    return results;
  };
  for (Step& step : schedule.steps) {
    if (is_check(step)) {
      step.buffers.push_back(error);
      continue;
    }
    const std::vector<int> results = results_of(step);
    const auto is_written = [&](const Schedule::Donation& donation) {
      return std::find(results.begin(), results.end(), donation.result) != results.end();
    };
    if (results.empty() || std::none_of(schedule.donations.begin(), schedule.donations.end(), is_written)) continue;
    if (auto predicated = step.payload->predicated(error)) {
      const loop::Kernel* const kernel = step.payload->kernel();
      step.buffers = with_buffer(step, kernel ? kernel->buffers.size() : step.buffers.size(), error);
      step.payload = std::move(predicated);
    } else {
      std::erase_if(schedule.donations, is_written);
    }
  }
}

}  // namespace

void plan_memory(Schedule& schedule, Device device, std::span<const Update> updates) {
  place_in_results(schedule);
  const std::vector<Lifetime> lives = lifetimes(schedule);
  const std::vector<int> hosts = find_hosts(schedule, lives), none(hosts.size(), -1);
  const std::int64_t bytes = place(schedule, lives, none);
  if (hosts != none && place(schedule, lives, hosts) >= bytes) place(schedule, lives, none);
  Donations(schedule, lives).find(updates);
  if (device.type != Device::Type::cpu) predicate_donations(schedule);
}

}  // namespace weft
