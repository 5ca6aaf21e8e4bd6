// Weft's version, as it enters keys of caches and messages. CMakeLists.txt's project() is where it is written.
#pragma once

namespace weft {

extern const char* const version;

}  // namespace weft
