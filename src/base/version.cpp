#include "base/version.hpp"

namespace weft {

const char* const version = WEFT_VERSION;

}  // namespace weft
