// Mutated files. In: a valid file and a reader. Out: what the reader did; anything but an answer or a refusal ends the
// process, and so does memory beyond a bound.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace weft::test {

// One to four changes: bits, bytes of interest, digits, parts cut out, doubled or taken from elsewhere.
inline std::string mutated(const std::string& valid, std::mt19937_64& random) {
  std::string text = valid;
  const auto below = [&](std::size_t limit) { return limit ? static_cast<std::size_t>(random() % limit) : 0; };
  static const std::string tokens[] = {
      "0",    "9",   "18446744073709551615", "9223372036854775808", "-1", "{", "}", "[",   "]", ",", "\"", ":", "F64",
      "null", "1e9", std::string(8, '\xff'), std::string(8, '\0'),  "(",  ")", "'", "True"};
  for (std::size_t i = 0, count = 1 + below(4); i < count && !text.empty(); ++i) {
    const std::size_t at = below(below(2) ? text.size() : std::min<std::size_t>(text.size(), 300));
    switch (below(6)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 1: text[at] = static_cast<char>(random()); break;
      case 2: text.insert(at, tokens[below(std::size(tokens))]); break;
      case 3: text.replace(at, 1, tokens[below(std::size(tokens))]); break;
      case 4: text.erase(at, below(40)); break;
      default: text.insert(at, text.substr(below(text.size()), below(40)));
    }
  }
  return text;
}

struct FuzzCounts {
  int accepted = 0, refused = 0;
};
// Reads `count` mutations of each file. read(text) returns whether the file was accepted.
template <class Read>
FuzzCounts fuzz(const std::vector<std::string>& files, int count, std::uint64_t seed, Read read) {
  FuzzCounts counts;
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i)
    ++(read(mutated(files[static_cast<std::size_t>(i) % files.size()], random)) ? counts.accepted : counts.refused);
  return counts;
}

}  // namespace weft::test
