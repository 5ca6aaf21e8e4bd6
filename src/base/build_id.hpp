// Which build of the library runs: the linker's build ID of the program, or of the shared library, that it is part of.
#pragma once
#include <string>

namespace weft {

// In hexadecimal digits. Empty where the linker was not asked for one (-Wl,--build-id).
const std::string& build_id();

}  // namespace weft
