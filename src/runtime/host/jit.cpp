#include "runtime/host/jit.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/no_compiler.hpp"
#include "runtime/cache.hpp"
#include "runtime/cache_file.hpp"
#include "runtime/directory.hpp"
#include "runtime/host/abi.hpp"
#include "runtime/host/compiler.hpp"
#include "weft/version.hpp"

namespace weft {

namespace {

struct Slot {
  std::weak_ptr<Library> library;
  // A thread of that process loads or compiles it; the others wait. A forked child does not have the thread.
  std::optional<std::uint32_t> in_work_in;
  bool in_work() const { return in_work_in == process_generation(); }
};

struct Memory {
  ProcessMutex& mutex = process_mutex(LockOrder::libraries);
  std::atomic<std::uint32_t> ended{0};  // turns that have; no condition variable, which a fork would leave undefined
  std::unordered_map<Digest, Slot, DigestHash> slots;
  JitCounts counts;

  void count(std::uint64_t JitCounts::*member, double seconds = 0) {
    const std::lock_guard lock(mutex);
    counts.*member += 1;
    counts.compile_seconds += seconds;
  }
};

Memory& memory() {
  static constinit Lazy<Memory> instance;
  return instance.get();
}

// Holds the right to make one library; gives it up on every way out.
class Turn {
 public:
  explicit Turn(const Digest& key) : key_(key) {}
  Turn(const Turn&) = delete;
  ~Turn() {
    const std::lock_guard lock(memory().mutex);
    Slot& slot = memory().slots[key_];
    slot.in_work_in.reset();
    slot.library = result_;
    if (!result_) memory().slots.erase(key_);
    memory().ended.fetch_add(1);
    memory().ended.notify_all();
  }
  std::shared_ptr<Library> finish(std::shared_ptr<Library> library) { return result_ = std::move(library); }

 private:
  Digest key_;
  std::shared_ptr<Library> result_;
};

// Code of another architecture is not loaded.
std::shared_ptr<Library> open(std::string_view bytes, const Digest& key, std::size_t units, InstructionSet isa) {
  return isa.architecture == host_architecture ? Library::load(bytes, key, units) : Library::keep(bytes, key, units);
}

// The library if somebody holds it; else null, and the caller has the turn to make it.
std::shared_ptr<Library> find_or_begin(const Digest& key) {
  Memory& all = memory();
  std::unique_lock lock(all.mutex);
  while (true) {
    Slot& slot = all.slots[key];
    if (auto library = slot.library.lock()) {
      ++all.counts.from_memory;
      return library;
    }
    if (!slot.in_work()) {
      slot.in_work_in = process_generation();
      // Slots of libraries that are gone go too, now and then, so that the table follows what is alive.
      if (all.slots.size() % 256 == 0) {
        std::erase_if(all.slots,
                      [](const auto& each) { return !each.second.in_work() && each.second.library.expired(); });
      }
      return nullptr;
    }
    const std::uint32_t seen = all.ended.load();
    lock.unlock();
    all.ended.wait(seen);
    lock.lock();
  }
}

std::vector<std::string> distinct(const std::vector<std::string>& units) {
  std::vector<std::string> result;
  std::unordered_map<Digest, bool, DigestHash> seen;
  for (const std::string& unit : units) {
    if (seen.emplace(digest(unit), true).second) result.push_back(unit);
  }
  return result;
}

// All that the library depends on but the compiler, and how the source is divided into units.
Digest digest_of(const std::vector<std::string>& units, const KernelSource& source) {
  Hasher hasher;
  hasher.add("kernels").add(version()).add(static_cast<std::uint64_t>(kernel_abi));
  hasher.add(name(source.isa)).add(source.extra_key);
  for (const std::string& flag : compile_flags(source.isa, source.optimization)) hasher.add(flag);
  for (const std::string& flag : link_flags()) hasher.add(flag);
  hasher.add("source");
  if (source.code != Digest()) return hasher.add(source.code.low).add(source.code.high).digest();
  for (const std::string& unit : units) hasher.add(unit);
  return hasher.digest();
}

// The high half is that of the source's digest: where there is no compiler, an entry is found by it. The low half tells
// compilers and divisions apart.
Digest key_of(const HostCompiler& compiler, const Digest& source, const std::vector<std::string>& units) {
  Hasher hasher;
  hasher.add(source.low).add(source.high).add(compiler.identity);
  for (const std::string& unit : units) hasher.add(unit);
  return {hasher.digest().low, source.high};
}

std::string metadata_of(const HostCompiler& compiler, const KernelSource& source, const Digest& digest,
                        std::size_t units, double seconds) {
  const nlohmann::json json = {{"kind", "kernels"},
                               {"source", hex(digest)},
                               {"weft", version()},
                               {"kernel_abi", kernel_abi},
                               {"isa", name(source.isa)},
                               {"flags", compile_flags(source.isa, source.optimization)},
                               {"units", units},
                               {"compiler", compiler.identity},
                               {"compile_seconds", seconds}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

void report(Library& library, const char* what, std::string origin, std::size_t bytes, double seconds) {
  library.set_origin(std::move(origin));
  if (!logging::enabled(logging::Channel::cache)) return;
  logging::write(logging::Channel::cache,
                 concat_text(what, " ", hex(library.key()), bytes ? concat_text(", ", bytes, " bytes") : "", ", ",
                             seconds * 1e3, " ms"));
}

// Keeps the source where it can be found after a failure too: beside the cache's entries or among temporary files.
std::string keep_source(const Digest& key, const std::string& text) {
  if (std::string path = disk_cache()->keep_text(key, ".cpp", text); !path.empty()) return path;
  constexpr std::uint64_t limit = 64 << 20;  // nothing else bounds what gathers there
  return Cache(scratch_paths(), limit).keep_text(key, ".cpp", text);
}

template <class E>
[[noreturn]] void fail_with_source(const E& error, const Digest& key, const KernelSource& source) {
  const std::string path = keep_source(key, source_text(source));
  throw E(concat_text(error.what(), "\n  source: ", path.empty() ? "could not be kept" : path).c_str());
}

std::shared_ptr<Library> load_cached(const Digest& key, std::size_t units, InstructionSet isa) {
  const std::optional<CacheEntry> entry = disk_cache()->load(key);
  if (!entry) return nullptr;
  try {
    return open(entry->payload, key, units, isa);
  } catch (const CompileError& error) {  // whatever is wrong with an entry, it is made anew
    if (logging::enabled(logging::Channel::cache)) logging::write(logging::Channel::cache, error.what());
    return nullptr;
  }
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The library of an entry, whose key any compiler may have made, or null.
std::shared_ptr<Library> load_entry(const Digest& key, const CacheEntry& entry, const Digest& digest,
                                    InstructionSet isa) {
  const nlohmann::json metadata = nlohmann::json::parse(entry.metadata, nullptr, false);
  if (!metadata.is_object() || metadata.value("source", nlohmann::json()) != hex(digest)) return nullptr;
  const nlohmann::json units = metadata.value("units", nlohmann::json());
  if (!units.is_number_unsigned()) return nullptr;
  try {
    return open(entry.payload, key, units.get<std::size_t>(), isa);
  } catch (const CompileError& error) {  // another one may be right
    if (logging::enabled(logging::Channel::cache)) logging::write(logging::Channel::cache, error.what());
    return nullptr;
  }
}

// What a file that was loaded has of this source, or null.
std::shared_ptr<Library> find_given(const Digest& digest, InstructionSet isa) {
  const auto start = std::chrono::steady_clock::now();
  for (const Digest& key : given_keys_with(digest.high)) {
    const std::optional<CacheEntry> entry = given_entry(key);
    std::shared_ptr<Library> library = entry ? load_entry(key, *entry, digest, isa) : nullptr;
    if (!library) continue;
    memory().count(&JitCounts::from_disk);
    report(*library, "hit in a loaded file", "found in a loaded file", 0, seconds_since(start));
    return library;
  }
  return nullptr;
}

// What any compiler made of this source, or null.
std::shared_ptr<Library> find_of_any_compiler(const Digest& digest, const KernelSource& source) {
  for (const Digest& key : find_keys(digest.high)) {
    const auto start = std::chrono::steady_clock::now();
    const std::optional<CacheEntry> entry = find_entry(key);
    if (!entry) continue;
    if (auto library = find_or_begin(key)) return library;
    Turn turn(key);
    auto library = load_entry(key, *entry, digest, source.isa);
    if (!library) continue;
    memory().count(&JitCounts::from_disk);
    report(*library, "hit", "found on disk", 0, seconds_since(start));
    library->set_source_path(keep_source(key, source_text(source)));
    return turn.finish(std::move(library));
  }
  return nullptr;
}

std::shared_ptr<Library> load_or_compile(const Digest& key, const HostCompiler& compiler, const KernelSource& source,
                                         const Digest& digest, const std::vector<std::string>& units) {
  if (auto library = find_given(digest, source.isa)) return library;
  auto start = std::chrono::steady_clock::now();
  if (auto library = load_cached(key, units.size(), source.isa)) {
    memory().count(&JitCounts::from_disk);
    report(*library, "hit", "found on disk", 0, seconds_since(start));
    return library;
  }
  start = std::chrono::steady_clock::now();
  const std::string bytes = compile_units(compiler, units, source.isa, key, source.optimization);
  const double seconds = seconds_since(start);
  memory().count(&JitCounts::compiled, seconds);
  auto library =
      open(bytes, key, units.size(), source.isa);  // before it is published: what can't be loaded is not kept
  report(*library, "compiled", concat_text("compiled in ", std::llround(seconds * 1e3), " ms"), bytes.size(), seconds);
  disk_cache()->store(key, metadata_of(compiler, source, digest, units.size(), seconds), bytes);
  return library;
}

}  // namespace

std::size_t unit_count(std::size_t kernels) {
  // A unit costs as much as two kernels before its first (docs/decisions/0001-compiler-driving.md).
  // The compiler's time grows faster than a unit: beyond 25 kernels a core there are more units than cores, as many on
  // each, so that none waits for the last one.
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t rounds = (kernels + 25 * cores - 1) / (25 * cores);
  return rounds > 1 ? rounds * cores : std::clamp(kernels / 2, std::size_t{1}, cores);
}

std::string source_text(const KernelSource& source) {
  const std::vector<std::string> units = distinct(source.units);
  if (units.size() == 1) return units[0];
  std::string text;
  for (std::size_t i = 0; i < units.size(); ++i) {
    text.append(concat_text("// ---- unit ", i, " of ", units.size(), "\n")).append(units[i]).append("\n");
  }
  return text;
}

std::shared_ptr<Library> jit(const KernelSource& source) {
  WEFT_CHECK(!source.units.empty(), "no source");
  const std::vector<std::string> units = distinct(source.units);
  const Digest of_source = digest_of(units, source);
  HostCompiler compiler;
  try {
    compiler = host_compiler(source.isa.architecture);
  } catch (const NoCompilerError& error) {
    if (auto library = find_of_any_compiler(of_source, source)) return library;
    fail_with_source(error, digest(source_text(source)), source);
  } catch (const CompileError& error) {
    fail_with_source(error, digest(source_text(source)), source);
  }
  const Digest key = key_of(compiler, of_source, units);
  if (auto library = find_or_begin(key)) return library;
  Turn turn(key);
  try {
    auto library = load_or_compile(key, compiler, source, of_source, units);
    library->set_source_path(keep_source(key, source_text(source)));
    return turn.finish(std::move(library));
  } catch (const CompileError& error) {
    fail_with_source(error, key, source);
  }
}

std::shared_ptr<Library> find_library(const Digest& key, std::size_t units, InstructionSet isa) {
  if (auto library = find_or_begin(key)) return library;
  Turn turn(key);
  const std::optional<CacheEntry> entry = find_entry(key);
  if (!entry) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  try {
    auto library = open(entry->payload, key, units, isa);
    memory().count(&JitCounts::from_disk);
    report(*library, "hit", "found on disk", 0, seconds_since(start));
    library->set_source_path(disk_cache()->text_path(key, ".cpp"));
    return turn.finish(std::move(library));
  } catch (const CompileError& error) {
    if (logging::enabled(logging::Channel::cache)) logging::write(logging::Channel::cache, error.what());
    return nullptr;
  }
}

JitCounts jit_counts() {
  const std::lock_guard lock(memory().mutex);
  return memory().counts;
}

}  // namespace weft
