// Names within paths, which are C strings.
#pragma once
#include "base/fail.hpp"

namespace weft {

// The name. Throws Error where it has a NUL byte, as the key of a map can: the path would end there.
inline std::string_view path_name(std::string_view name) {
  if (const std::size_t at = name.find('\0'); at != name.npos)
    fail("model", {}, "the key of a map has a NUL byte, where its path would end: after \"", name.substr(0, at), "\"");
  return name;
}

}  // namespace weft
