#include "runtime/lanes.hpp"

#include <algorithm>
#include <bitset>

namespace weft::runtime {

namespace {

bool depends(const std::vector<Touched>& later, const std::vector<Touched>& earlier) {
  for (const Touched& a : later)
    for (const Touched& b : earlier)
      if ((a.written || b.written) && a.begin < b.end && b.begin < a.end) return true;
  return false;
}

bool is_collective(const std::vector<Touched>& step) {
  return std::ranges::any_of(step, [](const Touched& touched) { return touched.begin == by_collectives.begin; });
}

bool is_idle(const std::vector<Touched>& step) { return step.size() == 1 && step[0].begin == by_idle.begin; }

constexpr int lane_of_collectives = most_lanes - 1;

// Of many steps: those of a lane run in order, so each comes after the latest one of the other lane that it depends on.
std::vector<Ordered> assign_two_lanes(std::span<const std::vector<Touched>> steps) {
  std::vector<Ordered> ordered(steps.size());
  std::vector<std::size_t> collectives;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto waits_for = [&](std::size_t j) {
      if (ordered[j].lane < 0 || !depends(steps[i], steps[j])) return false;
      ordered[i].after.push_back(j);
      return true;
    };
    if (is_idle(steps[i])) {
      ordered[i].lane = -1;
    } else if (is_collective(steps[i])) {
      ordered[i].lane = lane_of_collectives;
      for (std::size_t j = i; j-- > 0;)
        if (ordered[j].lane != lane_of_collectives && waits_for(j)) break;
      collectives.push_back(i);
    } else {
      for (std::size_t k = collectives.size(); k-- > 0;)
        if (waits_for(collectives[k])) break;
    }
  }
  return ordered;
}

std::uintptr_t bytes_of(const std::vector<Touched>& step) {
  std::uintptr_t bytes = 0;
  for (const Touched& touched : step) bytes += touched.end - touched.begin;
  return bytes;
}
// By step: a collective that moves much more than the one after it.
std::vector<bool> find_large(std::span<const std::vector<Touched>> steps) {
  constexpr std::uintptr_t much = 2;
  std::vector<bool> large(steps.size(), false);
  const std::vector<Touched>* next = nullptr;
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (!is_collective(steps[i])) continue;
    large[i] = next && bytes_of(steps[i]) > much * bytes_of(*next);
    next = &steps[i];
  }
  return large;
}

}  // namespace

std::vector<Ordered> assign_lanes(std::span<const std::vector<Touched>> steps) {
  if (steps.size() > most_ordered) return assign_two_lanes(steps);
  std::vector<Ordered> ordered(steps.size());
  std::vector<std::bitset<most_ordered>> before(steps.size());  // by step: all that it comes after
  std::vector<std::size_t> last;                                // by lane: its latest step
  const bool apart = std::ranges::any_of(steps, is_collective);
  const std::size_t most = apart ? lane_of_collectives : most_lanes;
  const std::vector<bool> large = find_large(steps);
  std::vector<std::size_t> first;  // what the latest large collective waits for, the latest first
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<std::size_t> after;
    if (is_idle(steps[i])) {
      ordered[i].lane = -1;
      continue;
    }
    if (!apart || !is_collective(steps[i]))
      for (const std::size_t j : first) {
        if (before[i][j]) continue;
        before[i] |= before[j];
        before[i].set(j);
        after.push_back(j);
      }
    for (std::size_t j = i; j-- > 0;) {
      if (before[i][j] || !depends(steps[i], steps[j])) continue;
      before[i] |= before[j];
      before[i].set(j);
      after.push_back(j);
    }
    // The lane whose latest step this one comes after anyway, the latest of those; else a new one; else the one that
    // has waited longest.
    std::size_t lane = last.size();
    for (std::size_t k = 0; k < last.size(); ++k)
      if (before[i][last[k]] && (lane == last.size() || last[k] > last[lane])) lane = k;
    if (lane == last.size() && lane == most)
      lane = static_cast<std::size_t>(std::min_element(last.begin(), last.end()) - last.begin());
    if (apart && is_collective(steps[i])) {
      lane = lane_of_collectives;
      if (large[i]) first.clear();
      for (const std::size_t j : after)
        if (large[i] && ordered[j].lane != lane_of_collectives) first.push_back(j);
    } else if (lane == last.size()) {
      last.push_back(i);
    } else {
      before[i] |= before[last[lane]];
      before[i].set(last[lane]);
      last[lane] = i;
    }
    ordered[i].lane = static_cast<int>(lane);
    for (const std::size_t j : after)
      if (ordered[j].lane != ordered[i].lane) ordered[i].after.push_back(j);
  }
  return ordered;
}

}  // namespace weft::runtime
