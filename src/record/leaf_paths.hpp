// Paths of leaves, as people read them: `in.weight`, `layers.3`. visit_paths() (weft/flatten.hpp) walks them.
#pragma once
#include <string>

#include "weft/flatten.hpp"

namespace weft::detail {

// A number as a person writes it.
std::string value_text(NumberKind kind, std::uint64_t bits, std::size_t size);

}  // namespace weft::detail
