// Weft's version, as it enters keys of caches and messages. The same number stands in CMakeLists.txt's project().
#pragma once

namespace weft {

inline constexpr char version[] = "0.1.0";

}  // namespace weft
