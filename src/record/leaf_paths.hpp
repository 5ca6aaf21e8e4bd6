// Paths of leaves, as people read them: `in.weight`, `layers.3`. visit_paths() (weft/flatten.hpp) walks them.
#pragma once
#include <string>

#include "weft/flatten.hpp"

namespace weft::detail {

// That of one leaf, by its place in the list; empty where the value is the leaf.
std::string leaf_path(const TypeDescription& description, const LeafList& leaves, std::size_t leaf);

// A number as a person writes it.
std::string value_text(NumberKind kind, std::uint64_t bits, std::size_t size);

}  // namespace weft::detail
