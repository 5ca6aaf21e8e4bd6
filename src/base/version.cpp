#include "weft/version.hpp"

const char WEFT_VERSION_SYMBOL = 0;

namespace weft {

const char* version() noexcept { return WEFT_VERSION; }

}  // namespace weft
