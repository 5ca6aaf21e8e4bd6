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

}  // namespace

std::vector<Ordered> assign_lanes(std::span<const std::vector<Touched>> steps) {
  std::vector<Ordered> ordered(steps.size());
  if (steps.size() > most_ordered) return ordered;
  std::vector<std::bitset<most_ordered>> before(steps.size());  // by step: all that it comes after
  std::vector<std::size_t> last;                                // by lane: its latest step
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<std::size_t> after;
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
    if (lane == last.size() && lane == most_lanes)
      lane = static_cast<std::size_t>(std::min_element(last.begin(), last.end()) - last.begin());
    if (lane == last.size()) {
      last.push_back(i);
    } else {
      before[i] |= before[last[lane]];
      before[i].set(last[lane]);
    }
    last[lane] = i;
    ordered[i].lane = static_cast<int>(lane);
    for (const std::size_t j : after)
      if (ordered[j].lane != ordered[i].lane) ordered[i].after.push_back(j);
  }
  return ordered;
}

}  // namespace weft::runtime
