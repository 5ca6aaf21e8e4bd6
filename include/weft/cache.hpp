// What this program has compiled, as one file for other machines: a container starts with it and compiles nothing.
//   warm_up(step, model, x, y);
//   save_cache("model.kernels");           // where there is a compiler
//   load_cache("model.kernels");           // before the first call, where there need not be one
#pragma once
#include <cstddef>
#include <string>

#include "weft/error.hpp"

namespace weft {

// Writes the kernels and plans that this process has made or taken from the cache into a file, and returns how many
// entries. A plan serves the same build of the program alone, kernels serve all. Throws Error where the file can't be
// written, or there is no cache folder to take them from, or all of them were removed from it.
std::size_t save_cache(const std::string& path, Loc loc = Loc::current());

// From here on kernels and plans are looked for among those of the file first, for the whole process. Returns how many
// entries it has. Throws Error where the file can't be read or is damaged, or was made for another version of Weft,
// instruction set, compiler or NVRTC than this process has: the message names what differs.
std::size_t load_cache(const std::string& path, Loc loc = Loc::current());

}  // namespace weft
