#include "base/hash.hpp"

#include <doctest/doctest.h>

#include <set>

using weft::Digest;
using weft::Hasher;

TEST_CASE("a digest is the same in every process and build") {
  CHECK(weft::hex(weft::digest("")) == "99aa06d3014798d86001c324468d497f");  // XXH3-128's published value for no bytes
  CHECK(weft::hex(Digest{0x0123456789abcdef, 0xfedcba9876543210}) == "fedcba98765432100123456789abcdef");
}

TEST_CASE("every single bit changes the digest") {
  std::string bytes(100, 'x');
  std::set<Digest> seen{weft::digest(bytes)};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    seen.insert(weft::digest(bytes));
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  CHECK(seen.size() == 801);
}

TEST_CASE("parts are kept apart") {
  CHECK(Hasher().add("ab").add("c").digest() != Hasher().add("a").add("bc").digest());
  CHECK(Hasher().add("ab").digest() != Hasher().add("ab").add("").digest());
  CHECK(Hasher().add("ab").add("c").digest() == Hasher().add("ab").add("c").digest());
}
