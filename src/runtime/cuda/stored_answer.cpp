#include "runtime/cuda/stored_answer.hpp"

#include "base/fail.hpp"
#include "runtime/cache.hpp"

namespace weft::runtime::cuda {

StoredAnswer::StoredAnswer(std::string_view kind, std::uint64_t version, const DeviceState& device,
                           std::string_view question)
    : kind_(kind) {
  Hasher hasher;
  hasher.add(kind).add(version).add(device.name).add(device.target->name);
  hasher.add(static_cast<std::uint64_t>(device.multiprocessors)).add(question);
  key_ = hasher.digest();
}

std::optional<std::string> StoredAnswer::load() const {
  std::optional<CacheEntry> entry = disk_cache()->load(key_);
  if (!entry) return std::nullopt;
  return std::move(entry->payload);
}

void StoredAnswer::store(std::string_view answer) const {
  disk_cache()->store(key_, concat_text(R"({"kind": ")", kind_, R"("})"), answer);
}

}  // namespace weft::runtime::cuda
