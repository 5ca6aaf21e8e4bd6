// 128-bit digests of bytes (XXH3). They name cache entries and detect damage; they are no defence against an adversary
// who can write into the cache, which the ownership of its directory is (runtime/directory.hpp).
// The same bytes give the same digest in every process and on every machine.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

Digest digest(std::string_view bytes);

// 32 lower-case hexadecimal digits, high half first.
std::string hex(const Digest& digest);

struct DigestHash {
  std::size_t operator()(const Digest& digest) const { return digest.low; }
};

// A digest of several parts. Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
class Hasher {
 public:
  Hasher& add(std::string_view part);
  Hasher& add(std::uint64_t number);
  Digest digest() const { return weft::digest(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace weft
