#include "schedule/places.hpp"

#include <algorithm>

namespace weft {
namespace {

constexpr std::int64_t alignment = Gaps::alignment;
constexpr std::int64_t least_in_result = least_shared(Device::cpu());

Dim raw_bytes_of(const ScheduleBuffer& buffer) { return storage_bytes(info(buffer.dtype), buffer.elements); }
Dim bytes_of(const ScheduleBuffer& buffer) {
  return (raw_bytes_of(buffer) + Dim(alignment - 1)) / Dim(alignment) * Dim(alignment);
}

// Where temporaries lie: offsets and, for those in the memory of a result, which one. By buffer.
struct Places {
  std::vector<Dim> offsets;
  std::vector<int> in_result;
  std::int64_t top = 0;  // bytes of the arena for those of static size
  Dim arena = 0;         // and for all
};

// How temporaries share memory.
struct Sharing {
  std::vector<int> hosts;          // by buffer: the one whose memory it takes, or -1
  std::vector<Vacancy> vacancies;  // by their first step, of static size
  // By buffer: the result whose first step reads it last and may write where it is, or -1.
  std::vector<int> overwritten;
};

// The lowest gap that fits, for one buffer after the other: in the first result that has one, else in the arena.
// Unfinished where the arena takes `most` bytes or more.
void place_static(const Schedule& schedule, const std::vector<Lifetime>& lives, const std::vector<std::size_t>& order,
                  bool by_time, const Sharing& sharing, std::int64_t most, Places& places) {
  Gaps arena;
  std::vector<Gaps> vacancies;
  for (const Vacancy& vacancy : sharing.vacancies)
    vacancies.emplace_back(raw_bytes_of(schedule.buffers[vacancy.buffer]).constant());
  places.top = 0;
  for (const std::size_t b : order) {
    const std::int64_t bytes = raw_bytes_of(schedule.buffers[b]).constant();
    int in_result = -1;
    std::int64_t at = -1;
    if (by_time) arena.forget_before(lives[b].first);
    for (std::size_t r = 0; r < vacancies.size() && at < 0 && bytes >= least_in_result; ++r) {
      const Vacancy& vacancy = sharing.vacancies[r];
      if (by_time) vacancies[r].forget_before(lives[b].first);
      const bool is_over = lives[b].last < vacancy.first;
      const bool is_overwritten = sharing.overwritten[b] == vacancy.result && vacancies[r].is_free(bytes, lives[b]);
      if (is_over || is_overwritten) at = vacancies[r].take(bytes, lives[b]), in_result = vacancy.result;
    }
    if (at < 0) {
      at = arena.take(bytes, lives[b]), in_result = -1;
      places.top = std::max(places.top, at + bytes_of(schedule.buffers[b]).constant());
      if (places.top >= most) return;
    }
    places.offsets[b] = at;
    places.in_result[b] = in_result;
  }
}

// The most bytes that are in memory at once: no order of these buffers takes less.
std::int64_t most_at_once(const Schedule& schedule, const std::vector<Lifetime>& lives,
                          const std::vector<std::size_t>& buffers) {
  std::vector<std::int64_t> change(schedule.steps.size() + 1, 0);
  for (const std::size_t b : buffers) {
    const std::int64_t bytes = bytes_of(schedule.buffers[b]).constant();
    const auto add = [&](int begin, int end) {
      change[static_cast<std::size_t>(begin)] += bytes, change[static_cast<std::size_t>(end) + 1] -= bytes;
    };
    const Lifetime& life = lives[b];
    if (life.leaves_at < 0)
      add(life.first, life.last);
    else
      add(life.first, life.leaves_at), add(life.returns_at, life.last);
  }
  std::int64_t now = 0, most = 0;
  for (const std::int64_t each : change) most = std::max(most, now += each);
  return most;
}

// By buffer the one whose memory it takes, or -1: of the temporaries of at least so many bytes that a step writes, a
// temporary that the step reads last and may overwrite.
std::vector<int> find_hosts(const Schedule& schedule, const std::vector<Lifetime>& lives, std::int64_t least) {
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

// The results in whose memory temporaries may lie: of static size, the largest, as each is asked for each temporary.
std::vector<Vacancy> largest_vacancies(const Schedule& schedule) {
  constexpr std::size_t most_vacancies = 16;
  std::vector<Vacancy> vacancies = find_vacancies(schedule.steps, schedule.buffers, schedule.donations);
  const auto bytes = [&](const Vacancy& vacancy) {
    const Dim bytes = raw_bytes_of(schedule.buffers[vacancy.buffer]);
    return bytes.is_constant() ? bytes.constant() : 0;
  };
  std::erase_if(vacancies, [&](const Vacancy& vacancy) { return bytes(vacancy) < least_in_result; });
  std::ranges::sort(vacancies, std::less{}, &Vacancy::result);
  std::ranges::stable_sort(vacancies, std::greater{}, bytes);
  if (vacancies.size() > most_vacancies) vacancies.resize(most_vacancies);
  std::ranges::stable_sort(vacancies, std::less{}, &Vacancy::first);
  return vacancies;
}

// By buffer: the result that is first written by the step which reads the temporary last, and where that is; or -1.
std::vector<int> find_overwritten(const Schedule& schedule, const std::vector<Lifetime>& lives,
                                  const std::vector<Vacancy>& vacancies) {
  std::vector<int> overwritten(lives.size(), -1);
  for (const Vacancy& vacancy : vacancies) {
    const Step& step = schedule.steps[static_cast<std::size_t>(vacancy.first)];
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const ScheduleBuffer& result = schedule.buffers[static_cast<std::size_t>(step.buffers[i])];
      if (!writes[i] || result.kind != ScheduleBuffer::Kind::result || result.index != vacancy.result) continue;
      for (std::size_t j = 0; j < writes.size(); ++j) {
        const auto a = static_cast<std::size_t>(step.buffers[j]);
        const ScheduleBuffer& read = schedule.buffers[a];
        if (!writes[j] && read.kind == ScheduleBuffer::Kind::temporary && lives[a].last == vacancy.first &&
            read.dtype == result.dtype && read.elements.same(result.elements) &&
            step.payload->in_place(step.buffers[j], step.buffers[i]))
          overwritten[a] = vacancy.result;
      }
    }
  }
  return overwritten;
}

// Static sizes: in the order of their first use, the largest first, or those first that are large for long, whichever
// takes the least memory. What has a host lies where that does, which lives as long as both.
// Symbolic sizes: a free block of the same expression, else a new one after everything.
// Unfinished where those of static size take `most` bytes or more.
Places place(const Schedule& schedule, std::vector<Lifetime> lives, Sharing sharing, std::int64_t most) {
  const std::vector<int>& hosts = sharing.hosts;
  const auto host_of = [&](std::size_t b) {
    while (hosts[b] >= 0) b = static_cast<std::size_t>(hosts[b]);
    return b;
  };
  // What is overwritten by a result is the last of those that share its memory.
  for (const int host : hosts)
    if (host >= 0) sharing.overwritten[static_cast<std::size_t>(host)] = -1;
  for (std::size_t b = 0; b < lives.size(); ++b) {
    Lifetime& life = lives[host_of(b)];
    life.last = std::max(life.last, lives[b].last);
    if (life.leaves_at < 0) life.leaves_at = lives[b].leaves_at, life.returns_at = lives[b].returns_at;
    if (hosts[b] >= 0 && sharing.overwritten[b] >= 0) sharing.overwritten[host_of(b)] = sharing.overwritten[b];
  }
  struct Symbolic {
    Dim bytes, offset;
    std::vector<Lifetime> lives;
  };
  std::vector<Symbolic> symbolic;
  Dim symbolic_bytes = 0;
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < schedule.buffers.size(); ++b)
    if (schedule.buffers[b].kind == ScheduleBuffer::Kind::temporary && lives[b].first >= 0 && hosts[b] < 0)
      order.push_back(b);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lives[a].first < lives[b].first; });
  Places places{std::vector<Dim>(lives.size(), Dim(0)), std::vector<int>(lives.size(), -1)};
  std::vector<std::size_t> symbolic_buffers, static_buffers;
  for (std::size_t b : order) {
    Dim bytes = bytes_of(schedule.buffers[b]);
    if (bytes.is_constant()) {
      static_buffers.push_back(b);
      continue;
    }
    for (Symbolic& s : symbolic)
      std::erase_if(s.lives, [&](const Lifetime& life) { return life.last < lives[b].first; });
    auto free = std::find_if(symbolic.begin(), symbolic.end(), [&](const Symbolic& s) {
      return s.bytes.same(bytes) &&
             std::ranges::all_of(s.lives, [&](const Lifetime& life) { return life.is_apart_from(lives[b]); });
    });
    if (free == symbolic.end()) {
      symbolic.push_back({bytes, symbolic_bytes, {}});
      symbolic_bytes = symbolic_bytes + bytes;
      free = symbolic.end() - 1;
    }
    free->lives.push_back(lives[b]);
    places.offsets[b] = free->offset;
    symbolic_buffers.push_back(b);
  }
  const std::int64_t least = sharing.vacancies.empty() ? most_at_once(schedule, lives, static_buffers) : 0;
  place_static(schedule, lives, static_buffers, true, sharing, most, places);
  constexpr std::size_t most_compared = 4096;  // each with each
  if (static_buffers.size() <= most_compared) {
    const auto weight = [&](std::size_t b, bool long_lives) {
      const auto bytes = static_cast<double>(bytes_of(schedule.buffers[b]).constant());
      return long_lives ? bytes * (lives[b].last - lives[b].first + 1) : bytes;
    };
    for (const bool long_lives : {false, true}) {
      if (least >= std::min(most, places.top)) break;  // no order takes less
      std::vector<std::size_t> heaviest = static_buffers;
      std::stable_sort(heaviest.begin(), heaviest.end(),
                       [&](std::size_t a, std::size_t b) { return weight(a, long_lives) > weight(b, long_lives); });
      Places other = places;
      place_static(schedule, lives, heaviest, false, sharing, std::min(most, places.top), other);
      if (other.top < places.top) places = std::move(other);
    }
  }
  for (std::size_t b : symbolic_buffers) places.offsets[b] = places.offsets[b] + Dim(places.top);
  for (std::size_t b = 0; b < hosts.size(); ++b)
    if (hosts[b] >= 0)
      places.offsets[b] = places.offsets[host_of(b)], places.in_result[b] = places.in_result[host_of(b)];
  places.arena = symbolic_bytes + Dim(places.top);
  return places;
}

}  // namespace

std::vector<Lifetime> lifetimes(const Schedule& schedule) {
  std::vector<Lifetime> result(schedule.buffers.size());
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (int buffer : schedule.steps[s].buffers) {
      Lifetime& life = result[static_cast<std::size_t>(buffer)];
      if (life.first < 0) life.first = static_cast<int>(s);
      life.last = static_cast<int>(s);
    }
  for (std::size_t b = 0; b < result.size(); ++b) {
    result[b].leaves_at = schedule.buffers[b].leaves_at;
    result[b].returns_at = schedule.buffers[b].returns_at;
  }
  return result;
}

// On a device collectives have a queue of their own, and what a collective has read last is still read while the steps
// after it run: it is not theirs before the next collective, which begins when this one has ended.
std::vector<Lifetime> with_collectives_under_way(const Schedule& schedule, std::vector<Lifetime> lives) {
  std::vector<std::size_t> open;
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    if (!schedule.steps[s].payload->is_collective()) continue;
    for (const std::size_t b : open) lives[b].last = static_cast<int>(s);
    open.clear();
    for (const int b : schedule.steps[s].buffers)
      if (lives[static_cast<std::size_t>(b)].last == static_cast<int>(s)) open.push_back(static_cast<std::size_t>(b));
  }
  return lives;
}

// Shares memory in the way that takes the least.
void place_temporaries(Schedule& schedule, const std::vector<Lifetime>& lives, Device device, bool in_results) {
  const std::vector<int> none(lives.size(), -1);
  const std::vector<Lifetime> held =
      device.type == Device::Type::cpu ? lives : with_collectives_under_way(schedule, lives);
  Sharing sharing{none, {}, none};
  Places best = place(schedule, held, sharing, Gaps::unlimited);
  const auto compare = [&](const Sharing& other) {
    Places places = place(schedule, held, other, best.top);
    if (places.top < best.top) best = std::move(places), sharing = other;
  };
  if (std::vector<int> hosts = find_hosts(schedule, lives, least_shared(device)); hosts != none)
    compare({std::move(hosts), {}, none});
  if (std::vector<Vacancy> vacancies = largest_vacancies(schedule); in_results && !vacancies.empty()) {
    std::vector<int> overwritten = find_overwritten(schedule, lives, vacancies);
    compare({sharing.hosts, std::move(vacancies), std::move(overwritten)});
  }
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (schedule.buffers[b].kind != ScheduleBuffer::Kind::temporary) continue;
    schedule.buffers[b].offset = best.offsets[b];
    schedule.buffers[b].in_result = best.in_result[b];
  }
  schedule.arena_bytes = best.arena;
}

}  // namespace weft
