// Checks of a graph's sizes in one call, for graphs that no recorder has made or that run without guards.
#pragma once
#include <cstdint>
#include <span>

#include "ir/graph.hpp"

namespace weft {

// Throws Error where the symbols have values outside of their ranges, or a condition of the graph does not hold.
void check_guards(const Graph& graph, std::span<const std::int64_t> symbols, const char* operation, Loc loc);

// Throws Error where, with these values of the symbols, a value has a negative size or too many elements, or an
// operation reads outside of its operands. Bodies with symbols of their own are left out.
void check_sizes_at(const Graph& graph, std::span<const std::int64_t> symbols, const char* operation, Loc loc);

}  // namespace weft
