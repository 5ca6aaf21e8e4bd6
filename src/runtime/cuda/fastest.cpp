#include "runtime/cuda/fastest.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "base/storage.hpp"
#include "base/work.hpp"

namespace weft::runtime::cuda {

Fastest find_fastest(Device device, std::size_t count, const std::function<bool(std::size_t)>& run) {
  constexpr int rounds = 5, runs = 3;
  constexpr double clearly = 0.97;  // of the first one's time
  std::vector<std::size_t> able;
  for (std::size_t i = 0; i < count; ++i)
    if (run(i)) able.push_back(i);
  std::vector<double> least(count, std::numeric_limits<double>::infinity());
  for (int round = 0; round < rounds; ++round) {
    const std::unique_ptr<Marks> marks = device_interface(Device::Type::cuda).marks(device);
    marks->hold();
    marks->put();
    for (const std::size_t i : able) {
      for (int j = 0; j < runs; ++j) run(i);
      marks->put();
    }
    const std::vector<double> seconds = marks->seconds();
    for (std::size_t i = 0; i < able.size(); ++i)
      least[able[i]] = std::min(least[able[i]], (seconds[i + 1] - seconds[i]) / runs);
  }
  Fastest found;
  for (std::size_t i = 1; i < count; ++i)
    if (least[i] < least[found.place] * (found.place == 0 ? clearly : 1)) found.place = i;
  found.seconds = least[found.place];
  found.seconds_of_first = least[0];
  return found;
}

}  // namespace weft::runtime::cuda
