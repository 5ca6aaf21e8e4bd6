// Images whose channels lie last in memory, where the library convolves them so several times as fast: 16-bit floats on
// a device. In: a graph. Out: the same graph with copies where a convolution's operand or result cannot lie so, and the
// values that do. All that is between the convolutions, sums and activations say, lies so too; what comes first and
// what is a result is copied once. Not in a graph with a gradient of a convolution or a convolution of groups that does
// not gain by it.
#pragma once
#include <span>
#include <vector>

#include "ir/graph.hpp"
#include "schedule/provider.hpp"

namespace weft {

// Done before layouts are chosen. The graph itself where no convolution gains.
Graph with_channels_last(const Graph& graph, const Providers& providers, Device device);

// By node of such a graph: whether its elements lie with the channels last, if it gets memory.
std::vector<bool> channels_last_values(const Graph& graph, const Providers& providers, Device device);

// Of [N, C, H, W].
std::vector<Dim> channels_last_strides(const Shape& shape);

// What a kernel computes: it can be written in any order.
bool is_computed_by_kernel(const Node& node);
// What reads its operands' memory and is no kernel.
bool is_library_step(const Node& node);

}  // namespace weft
