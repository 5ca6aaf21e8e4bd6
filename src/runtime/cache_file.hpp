// Entries of the disk cache in one file (weft/cache.hpp). In: the keys that this process has used. Out: the file; and
// in another process its entries, which are looked at before the cache's folder.
#pragma once
#include <optional>
#include <vector>

#include "runtime/cache.hpp"
#include "weft/error.hpp"

namespace weft {

// An entry of a file that was loaded.
std::optional<CacheEntry> given_entry(const Digest& key);
// The keys of these with this high half.
std::vector<Digest> given_keys_with(std::uint64_t high);
// An entry of a file that was loaded, else of the cache's folder; and the keys of both, in this order, with a high
// half.
std::optional<CacheEntry> find_entry(const Digest& key);
std::vector<Digest> find_keys(std::uint64_t high);
// The file of the entries that this process has used, and how many they are. Throws Error, of save_cache.
std::string entries_as_bytes(std::size_t& count, Loc loc);
// Its entries are found from here on. `name`: of where the bytes are from, for the messages. Throws Error.
std::size_t load_entries(const std::string& name, std::string_view bytes, Loc loc);
// The entry was made by this process, or taken.
void note_used(const Digest& key);

}  // namespace weft
