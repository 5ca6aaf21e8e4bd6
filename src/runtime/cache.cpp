#include "runtime/cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "runtime/cache_file.hpp"
#include "runtime/directory.hpp"

namespace weft {

namespace {

struct Header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t metadata_size;
  std::uint64_t payload_size;
  Digest key;      // the file's name: an entry under another's name is a miss
  Digest content;  // of all before it in the header, and all after the header
};
static_assert(sizeof(Header) == 56);

constexpr char magic[8] = {'W', 'E', 'F', 'T', 'E', 'N', 'T', 'R'};
constexpr std::uint32_t format = 1;
constexpr std::uint64_t largest_entry = 1 << 30;
constexpr std::string_view entry_suffix = ".weft";
constexpr std::string_view suffixes[] = {entry_suffix, ".cpp", ".cu"};  // of entries, and of the texts beside them
constexpr std::time_t touch_age = 60;                                   // an entry's time of use is kept this exactly
constexpr int stores_between_collections = 64;

std::string_view bytes_of(const Header& header) { return {reinterpret_cast<const char*>(&header), sizeof header}; }

Digest content_digest(const Header& header, std::string_view metadata, std::string_view payload) {
  const std::string_view head = bytes_of(header).substr(0, offsetof(Header, content));
  return Hasher().add(head).add(metadata).add(payload).digest();
}

// A digest as hex() writes it, and a suffix.
bool is_name_of_ours(std::string_view name) {
  return name.size() > 32 && name.find_first_not_of("0123456789abcdef") == 32 &&
         std::ranges::find(suffixes, name.substr(32)) != std::end(suffixes);
}

// A regular file of ours that nobody else can change, by this name or another (none at all: it was just replaced).
bool is_trusted(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_nlink <= 1 &&
         !(status.st_mode & (S_IWGRP | S_IWOTH));
}

}  // namespace

struct Cache::State {
  PrivateDirectory directory;
  std::string refused;
  std::uint64_t size_limit = 0;
  std::atomic<int> stores = 0;

  int descriptor() const { return directory.descriptor.get(); }

  // Nothing, a partial write or a full disk leaves nothing behind but a temporary file that is removed.
  bool publish(const std::string& name, std::initializer_list<std::string_view> parts) const {
    const std::string temporary = unique_name(temporary_prefix);
    const Descriptor file(openat(descriptor(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return false;
    for (const std::string_view part : parts) {
      if (!write_all(file.get(), part)) return discard(temporary);
    }
    if (renameat(descriptor(), temporary.c_str(), descriptor(), name.c_str()) != 0) return discard(temporary);
    return true;
  }

  bool discard(const std::string& temporary) const {
    const int reason = errno;
    unlinkat(descriptor(), temporary.c_str(), 0);
    errno = reason;
    return false;
  }
};

Cache::Cache(const std::vector<std::string>& paths, std::uint64_t size_limit) : state_(std::make_unique<State>()) {
  state_->size_limit = size_limit;
  std::string& refused = state_->refused;
  for (const std::string& path : paths) {
    state_->directory = open_private_directory(path);
    if (state_->directory.descriptor) break;
    refused += concat_text(refused.empty() ? "" : "; ", path, ": ", state_->directory.refusal);
  }
  if (!state_->directory.descriptor) state_->directory.path.clear();
}

Cache::~Cache() = default;

const std::string& Cache::path() const { return state_->directory.path; }
const std::string& Cache::refused() const { return state_->refused; }

std::optional<CacheEntry> Cache::load(const Digest& key) const {
  if (path().empty()) return {};
  const std::string name = hex(key).append(entry_suffix);
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor file(openat(state_->descriptor(), name.c_str(), flags));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0) return {};

  const auto miss = [&](const char* reason) -> std::optional<CacheEntry> {
    if (logging::enabled(logging::Channel::cache)) {
      logging::write(logging::Channel::cache, concat_text("entry ", name, " is refused: ", reason));
    }
    return {};
  };
  if (!is_trusted(status)) return miss("it is no private file of this user");
  const std::optional<std::string> bytes = read_all(file.get(), largest_entry);
  Header header;
  if (!bytes || bytes->size() < sizeof header) return miss("it can't be read or is too short");
  std::memcpy(&header, bytes->data(), sizeof header);
  const std::uint64_t rest = bytes->size() - sizeof header;
  if (std::memcmp(header.magic, magic, sizeof magic) != 0 || header.format != format) return miss("another format");
  if (header.key != key) return miss("it belongs to another key");
  if (header.metadata_size > rest || header.payload_size != rest - header.metadata_size) return miss("sizes differ");
  const std::string_view body = std::string_view(*bytes).substr(sizeof header);
  const std::string_view metadata = body.substr(0, header.metadata_size);
  const std::string_view payload = body.substr(header.metadata_size);
  if (content_digest(header, metadata, payload) != header.content) return miss("its bytes are damaged");

  if (std::time(nullptr) - status.st_mtime > touch_age) futimens(file.get(), nullptr);  // now: the time of last use
  note_used(key);
  return CacheEntry{std::string(metadata), std::string(payload)};
}

std::vector<Digest> Cache::keys_with(std::uint64_t high) const {
  std::vector<Digest> keys;
  if (path().empty()) return keys;
  const std::string prefix = hex({0, high}).substr(0, 16);
  std::vector<std::pair<std::time_t, Digest>> found;
  for (const std::string& name : list_names(state_->descriptor())) {
    struct stat status;
    if (!name.starts_with(prefix) || !is_name_of_ours(name) || !name.ends_with(entry_suffix)) continue;
    if (fstatat(state_->descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found.emplace_back(status.st_mtime, Digest{std::stoull(name.substr(16, 16), nullptr, 16), high});
  }
  std::ranges::sort(found, std::greater<>());
  for (const auto& [used, key] : found) keys.push_back(key);
  return keys;
}

bool Cache::store(const Digest& key, std::string_view metadata, std::string_view payload) {
  if (path().empty()) return false;
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.format = format;
  header.metadata_size = static_cast<std::uint32_t>(metadata.size());
  header.payload_size = payload.size();
  header.key = key;
  header.content = content_digest(header, metadata, payload);
  if (!state_->publish(hex(key).append(entry_suffix), {bytes_of(header), metadata, payload})) {
    logging::warn_once(concat_text("the cache ", path(), " can't be written (", strerror(errno),
                                   "); kernels that are new are not cached on disk"));
    return false;
  }
  note_used(key);
  if (state_->stores++ % stores_between_collections == 0) collect();
  return true;
}

std::string Cache::keep_text(const Digest& key, std::string_view suffix, std::string_view text) {
  if (path().empty()) return {};
  const std::string name = hex(key).append(suffix);
  WEFT_CHECK(is_name_of_ours(name), name, " would never be removed");
  if (faccessat(state_->descriptor(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
    if (!state_->publish(name, {text})) return {};
    if (state_->stores++ % stores_between_collections == 0) collect();
  }
  return path() + "/" + name;
}

std::string Cache::text_path(const Digest& key, std::string_view suffix) const {
  const std::string name = hex(key).append(suffix);
  if (path().empty() || faccessat(state_->descriptor(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) return {};
  return path() + "/" + name;
}

void Cache::collect() {
  if (path().empty() || !state_->directory.ours) return;
  struct Entry {
    std::uint64_t size = 0;
    std::time_t used = 0;
    std::vector<std::string> names;
  };
  std::map<std::string, Entry> entries;  // by key: an entry goes with the texts beside it
  std::uint64_t total = 0;
  remove_leftovers(state_->descriptor());
  for (const std::string& name : list_names(state_->descriptor())) {
    struct stat status;
    if (fstatat(state_->descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(status.st_mode) || !is_name_of_ours(name)) continue;
    Entry& kept = entries[name.substr(0, 32)];
    kept.size += static_cast<std::uint64_t>(status.st_size);
    kept.used = std::max(kept.used, status.st_mtime);
    kept.names.push_back(name);
    total += static_cast<std::uint64_t>(status.st_size);
  }
  if (total <= state_->size_limit) return;
  std::vector<const Entry*> oldest_first;
  for (const auto& [key, kept] : entries) oldest_first.push_back(&kept);
  std::ranges::stable_sort(oldest_first, {}, &Entry::used);
  for (const Entry* kept : oldest_first) {
    if (total <= state_->size_limit / 10 * 9) break;  // room for a while, not for one entry
    for (const std::string& name : kept->names) unlinkat(state_->descriptor(), name.c_str(), 0);
    total -= kept->size;
  }
}

namespace {

// Where the cache lies: the chosen or usual folder, then a private one among temporary files.
std::vector<std::string> cache_paths() {
  if (!options().cache) return {};
  std::vector<std::string> paths;
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value && value[0] == '/' ? value : "");
  };
  if (!options().cache_directory.empty()) {
    paths.push_back(options().cache_directory);
  } else if (const std::string shared = environment("XDG_CACHE_HOME"); !shared.empty()) {
    paths.push_back(shared + "/weft");
  } else if (const std::string home = environment("HOME"); is_directory(home)) {
    paths.push_back(home + "/.cache/weft");
  }
  for (std::string& path : scratch_paths()) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

std::shared_ptr<Cache> disk_cache() {
  struct OpenedCache {
    std::shared_ptr<Cache> cache;
    std::vector<std::string> paths;
  };
  static constinit Lazy<OpenedCache> instance;
  auto& [cache, opened] = instance.get();
  const std::lock_guard lock(process_mutex(LockOrder::cache));
  std::vector<std::string> paths = cache_paths();
  // One that could not be opened is tried again: what was wrong (no descriptors left) may be over.
  if (!cache || paths != opened || cache->path().empty()) {
    cache = std::make_shared<Cache>(paths);
    opened = std::move(paths);
    const std::string instead =
        cache->path().empty() ? "kernels are not cached on disk" : "the cache is " + cache->path();
    if (const std::string& refused = cache->refused(); !refused.empty()) {
      logging::warn_once(concat_text("a cache folder can't be used (", refused, "); ", instead));
    }
  }
  return cache;
}

std::vector<std::string> working_paths() {
  std::vector<std::string> paths = scratch_paths();
  if (const std::string& path = disk_cache()->path(); !path.empty()) paths.push_back(path);
  return paths;
}

}  // namespace weft
