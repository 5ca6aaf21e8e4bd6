// The mark of what was recorded inside of offload() (schedule/offload.hpp): the highest bit of Node::region, which goes
// where that goes, but to derivatives.
#pragma once
#include "ir/node.hpp"

namespace weft {

inline constexpr std::uint32_t offload_mark = 1u << 31;
inline bool is_offloaded(const Node& node) { return node.region & offload_mark; }
// The use of a region that recorded it; 0: none.
inline std::uint32_t region_of(const Node& node) { return node.region & ~offload_mark; }

}  // namespace weft
