// A hash of 64-bit words, for tables in memory. What names an entry on disk is a digest (base/hash.hpp).
#pragma once
#include <cstdint>
#include <span>

namespace weft {

inline constexpr std::uint64_t hash_of_no_words = 0xcbf29ce484222325;
constexpr std::uint64_t with_word(std::uint64_t hash, std::uint64_t word) {
  return (hash ^ word ^ (word >> 29)) * 0x9e3779b97f4a7c15;
}

// Of a key that is a list of words.
struct WordsHash {
  constexpr std::size_t operator()(std::span<const std::uint64_t> words) const {
    std::uint64_t hash = hash_of_no_words;
    for (const std::uint64_t word : words) hash = with_word(hash, word);
    return hash ^ hash >> 32;
  }
};

}  // namespace weft
