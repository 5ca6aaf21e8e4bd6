// How wide a kernel's indices have to be on a device. In: a kernel, and what its symbols are at most. Out: whether 32
// bits hold every index.
#pragma once
#include <functional>
#include <optional>

#include "loop/kernel.hpp"

namespace weft::loop {

// Every index, with room for a loop variable to step over the end. `bound`: the greatest value of a symbol; without it,
// and where it gives none, it may be anything.
using SymbolBound = std::function<std::optional<double>(const DimNode& symbol)>;
bool fits_32_bits(const Kernel& kernel, const SymbolBound& bound = {});

}  // namespace weft::loop
