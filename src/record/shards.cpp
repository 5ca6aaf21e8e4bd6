#include "record/shards.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>

#include "base/fail.hpp"
#include "base/lazy.hpp"

namespace weft {
namespace {

struct Shards {
  std::mutex mutex;
  std::deque<Shard> all;  // addresses stay
};
Shards& shards() {
  static constinit Lazy<Shards> one;
  return one.get();
}

}  // namespace

std::int64_t Shard::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies());
}

std::uint32_t intern_shard(const Shard& shard) {
  Shards& known = shards();
  const std::lock_guard lock(known.mutex);
  const auto found = std::ranges::find(known.all, shard);
  const auto number = static_cast<std::uint32_t>(found - known.all.begin()) + 1;
  if (found == known.all.end()) known.all.push_back(shard);
  return number;
}
const Shard& interned_shard(std::uint32_t number) {
  Shards& known = shards();
  const std::lock_guard lock(known.mutex);
  WEFT_CHECK(number > 0 && number <= known.all.size(), "a shard that nobody described");
  return known.all[number - 1];
}

std::string to_string(const Shard& shard) {
  std::string text = "part of [";
  for (std::size_t i = 0; i < shard.sizes.size(); ++i) text += (i ? "," : "") + std::to_string(shard.sizes[i]);
  return text + "] in " + std::to_string(shard.processes) + " processes";
}

}  // namespace weft
