// Offers by time that was measured, for Level::O3. In: what several providers offer for one operation on the CPU whose
// sizes are known. Out: the one that takes the least time on memory of our own. Each operation is measured once in a
// process.
#pragma once
#include <optional>
#include <span>

#include "schedule/provider.hpp"

namespace weft::providers {

// Its place among the offers, of which there are two at least. Nothing where a size is not known, or where one of them
// can't run yet, as a kernel that is not compiled.
std::optional<std::size_t> fastest(const Candidate& candidate, std::span<const Offer> offers);

}  // namespace weft::providers
