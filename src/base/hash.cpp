#include "base/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {

Digest digest(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::string hex(const Digest& digest) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = digits[digest.high >> (4 * i) & 15];
    text[31 - i] = digits[digest.low >> (4 * i) & 15];
  }
  return text;
}

Hasher& Hasher::add(std::string_view part) {
  add(static_cast<std::uint64_t>(part.size()));
  bytes_.append(part);
  return *this;
}

Hasher& Hasher::add(std::uint64_t number) {
  for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(number >> (8 * i)));  // little endian everywhere
  return *this;
}

}  // namespace weft
