#include "runtime/host/abi.hpp"

#include <cstring>

#include "base/fail.hpp"

namespace weft {

std::string stamp_symbol(std::size_t index) { return concat_text("weft_unit_", index); }

std::string stamp_bytes(const Digest& key, std::size_t index) {
  const Digest stamp = Hasher().add(key.low).add(key.high).add(index).digest();
  std::string bytes(sizeof stamp, '\0');
  std::memcpy(bytes.data(), &stamp, sizeof stamp);
  return bytes;
}

}  // namespace weft
