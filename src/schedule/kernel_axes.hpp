// The axes of a kernel that has been lowered: their order, which of them are one, and which sizes are slots.
#pragma once
#include <optional>

#include "loop/kernel.hpp"

namespace weft {

// Outer axes first, in the order in which results lie in memory, then inner ones; axes of size 1 go.
void order_axes(loop::Kernel& kernel);
// Whether a kernel that reduces reads side by side along one of its outer axes, and nothing so along an inner one:
// images with their channels last, say, that are added up by channel.
bool reads_along_outer(const loop::Kernel& kernel);
// Axes that all accesses walk as one become one.
void merge_axes(loop::Kernel& kernel);
// Of a device: whether bounds that the program has given for its symbolic sizes (mark_dynamic) keep its indices in 32
// bits. Runs before sizes are slots.
bool is_small(const loop::Kernel& kernel);
// Sizes that only bound a loop, and symbolic ones, become size slots.
void parametrize(loop::Kernel& kernel);
// After that, of a pointwise kernel of several axes, and of one that streams the rows of its first: with the extent of
// its first axis as a slot too, which kernels that differ in it have in common. Nothing where indices depend on it.
// Serves launches of a device that become one; functions of the host are shared after scheduling (common_sizes.hpp).
std::optional<loop::Kernel> with_any_first_extent(const loop::Kernel& kernel);

}  // namespace weft
