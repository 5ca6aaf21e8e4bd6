#include "runtime/cache_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "runtime/cuda/libraries.hpp"
#include "runtime/directory.hpp"
#include "runtime/fields.hpp"
#include "runtime/host/abi.hpp"
#include "runtime/host/compiler.hpp"
#include "weft/cache.hpp"
#include "weft/version.hpp"

namespace weft {
namespace {

// The file: magic, what kernels depend on (JSON), then each entry: key, metadata, payload; at the end the digest of all
// before it. Numbers and texts are as runtime/fields.hpp writes them.
constexpr std::string_view magic = "WEFTPACK1\n";
constexpr std::size_t largest_file = std::size_t{4} << 30;

struct Known {
  ProcessMutex& mutex = process_mutex(LockOrder::given_entries);
  std::map<Digest, CacheEntry> given;
  std::set<Digest> used;
};
Known& known() {
  static constinit Lazy<Known> instance;
  return instance.get([] { return Known(); });
}

// What kernels depend on and their sources do not show; empty where this machine has no such thing. That of the
// compiler starts it, where it has not been asked before.
std::string compiler_version() {
  try {
    return host_compiler().version;
  } catch (const CompileError&) {
    return {};
  }
}
// NVRTC's is loaded for it, which takes longer than all else.
std::string nvrtc_version() {
  if (!runtime::cuda::nvrtc_available()) return {};
  int major = 0, minor = 0;
  runtime::cuda::nvrtc().nvrtcVersion(&major, &minor);
  return concat_text(major, ".", minor);
}
nlohmann::json fields_of_process() {
  return {{"version of Weft", version()},
          {"kernel ABI", std::to_string(kernel_abi)},
          {"instruction set", name(host_isa())}};
}
bool is_for_device(const CacheEntry& entry) {
  const nlohmann::json metadata = nlohmann::json::parse(entry.metadata, nullptr, false);
  return metadata.is_object() && metadata.value("kind", nlohmann::json()) == "cuda";
}
constexpr const char* nvrtc_field = "NVRTC";
constexpr const char *compiler_field = "compiler", *compiler_file_field = "file of the compiler";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::optional<CacheEntry> given_entry(const Digest& key) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const auto found = all.given.find(key);
  if (found == all.given.end()) return {};
  all.used.insert(key);
  return found->second;
}

std::vector<Digest> given_keys_with(std::uint64_t high) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  std::vector<Digest> keys;
  for (const auto& [key, entry] : all.given)
    if (key.high == high) keys.push_back(key);
  return keys;
}

std::optional<CacheEntry> find_entry(const Digest& key) {
  std::optional<CacheEntry> entry = given_entry(key);
  return entry ? std::move(entry) : disk_cache()->load(key);
}

std::vector<Digest> find_keys(std::uint64_t high) {
  std::vector<Digest> keys = given_keys_with(high);
  for (const Digest& key : disk_cache()->keys_with(high)) keys.push_back(key);
  return keys;
}

void note_used(const Digest& key) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  all.used.insert(key);
}

std::string entries_as_bytes(std::size_t& count, Loc loc) {
  std::set<Digest> keys;
  {
    Known& all = known();
    const std::lock_guard lock(all.mutex);
    keys = all.used;
  }
  const std::shared_ptr<Cache> cache = disk_cache();
  if (cache->path().empty()) fail("save_cache", loc, "there is no cache folder to take kernels from");
  runtime::FieldWriter entries;
  std::size_t missing = 0;  // removed from the folder meanwhile
  bool for_device = false;
  count = 0;
  for (const Digest& key : keys) {
    const std::optional<CacheEntry> entry = find_entry(key);
    if (!entry) {
      ++missing;
      continue;
    }
    for_device = for_device || is_for_device(*entry);
    entries(key.low, key.high, entry->metadata, entry->payload);
    ++count;
  }
  if ((missing || keys.empty()) && !is_directory(cache->path()))
    fail("save_cache", loc, "there is no cache folder to take kernels from: ", cache->path(), " is gone");
  if (missing && count == 0)
    fail("save_cache", loc, "nothing that this process has compiled is in the cache folder ", cache->path(),
         " any more");
  nlohmann::json fields = fields_of_process();
  fields[compiler_field] = compiler_version();
  fields[compiler_file_field] = host_compiler_file();
  if (for_device) fields[nvrtc_field] = nvrtc_version();
  runtime::FieldWriter head, end;
  head(fields.dump());
  std::string bytes = std::string(magic) + head.bytes() + entries.bytes();
  const Digest content = digest(bytes);
  end(content.low, content.high);
  return bytes += end.bytes();
}

std::size_t load_entries(const std::string& name, std::string_view all, Loc loc) {
  const auto refuse = [&](const auto&... why) { fail("load_cache", loc, name, why...); };
  if (!all.starts_with(magic)) refuse(" is no file of save_cache");
  constexpr std::size_t digest_size = 2 * sizeof(std::uint64_t);
  if (all.size() < magic.size() + digest_size) refuse(" is damaged");
  const std::string_view body = all.substr(0, all.size() - digest_size);
  Digest content;
  runtime::FieldReader(all.substr(body.size()))(content.low, content.high);
  if (digest(body) != content) refuse(" is damaged");
  std::string head;
  std::map<Digest, CacheEntry> entries;
  try {
    runtime::FieldReader reader(body.substr(magic.size()));
    reader(head);
    while (!reader.at_end()) {
      Digest key;
      reader(key.low, key.high);
      CacheEntry& entry = entries[key];
      reader(entry.metadata, entry.payload);
    }
  } catch (const runtime::Malformed&) {
    refuse(" is damaged");
  }
  const nlohmann::json made = nlohmann::json::parse(head, nullptr, false);
  if (!made.is_object()) refuse(" is damaged");
  nlohmann::json here = fields_of_process();
  // The same file is the same compiler: it need not be started.
  const std::string compiler_file = host_compiler_file();
  for (const auto& [field, value] : made.items())
    if (!value.is_string()) refuse(" is damaged");
  if (compiler_file.empty() || made.value(compiler_file_field, "") != compiler_file)
    here[compiler_field] = compiler_version();
  if (made.contains(nvrtc_field)) here[nvrtc_field] = nvrtc_version();
  for (const auto& [field, value] : here.items()) {
    const std::string was = made.value(field, ""), is = value.get<std::string>();
    if (was.empty() || is.empty() || was == is) continue;  // what one of the two lacks makes nothing
    refuse(" was made for another ", field, ": ", first_line(was), ", this process has ", first_line(is));
  }
  const std::size_t count = entries.size();
  Known& known_entries = known();
  const std::lock_guard lock(known_entries.mutex);
  for (auto& [key, entry] : entries) known_entries.given.insert_or_assign(key, std::move(entry));
  return count;
}

std::size_t save_cache(const std::string& path, Loc loc) {
  std::size_t count = 0;
  const std::string bytes = entries_as_bytes(count, loc);
  NewFile file("save_cache", path.c_str(), loc);
  file.write(bytes);
  file.finish();
  return count;
}

std::size_t load_cache(const std::string& path, Loc loc) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would be waited for
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) fail("load_cache", loc, path, " can't be read: ", strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("load_cache", loc, path, " is no regular file");
  errno = 0;
  const std::optional<std::string> bytes = read_all(file.get(), largest_file);
  if (!bytes) fail("load_cache", loc, path, " can't be read: ", errno ? strerror(errno) : "it is too large");
  return load_entries(path, *bytes, loc);
}

}  // namespace weft
