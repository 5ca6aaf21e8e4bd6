// The disk cache: one file an entry, named by a digest of everything that made it. Holds kernel libraries and programs
// for devices: bytes that can be made again. An entry that is not exactly what was stored under this key, whatever is
// wrong with it, is a miss. A cache that can't be used, for reading or for writing, is no error: the program runs
// without it and says so once.
//
// A file is: Header, metadata (JSON, for people and tools), payload. It is written under a temporary name and renamed,
// so a reader sees all of it or nothing; data that a power failure lost is found by its digest.
//
// What is removed: files named <digest>.weft, .cpp or .cu in a folder that bears our mark (runtime/directory.hpp).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"

namespace weft {

struct CacheEntry {
  std::string metadata;
  std::string payload;
};

class Cache {
 public:
  // Opens the folder, trying each path in turn until one may be used. None: a cache that never hits and stores nothing.
  explicit Cache(const std::vector<std::string>& paths, std::uint64_t size_limit = default_size_limit);
  ~Cache();

  std::optional<CacheEntry> load(const Digest& key) const;
  // The keys of entries with this high half, the last used one first.
  std::vector<Digest> keys_with(std::uint64_t high) const;
  // False when it could not be stored, which has been reported once.
  bool store(const Digest& key, std::string_view metadata, std::string_view payload);

  // Text for people, beside the entry: generated source. Its path, or nothing where it can't be kept.
  std::string keep_text(const Digest& key, std::string_view suffix, std::string_view text);

  // The path of such a text, or nothing where it is not there.
  std::string text_path(const Digest& key, std::string_view suffix) const;

  // Removes what an ended process left behind, and the entries that were not used for longest while the total is above
  // the limit. Done by itself now and then after a store.
  void collect();

  const std::string& path() const;     // empty: there is none
  const std::string& refused() const;  // the paths that may not be used, with reasons; empty when the first was taken

  static constexpr std::uint64_t default_size_limit = 1 << 30;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The cache of this process, as options() and the environment say. Opened at the first use and again when they change;
// folders that can't be used are warned about once.
std::shared_ptr<Cache> disk_cache();

// Folders for the compiler's working files, best first: the usual places for temporary files, then the cache's.
std::vector<std::string> working_paths();

}  // namespace weft
