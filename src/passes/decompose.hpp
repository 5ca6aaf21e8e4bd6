// Primitives that have no step of their own, in terms of others.
#pragma once
#include "passes/pattern.hpp"

namespace weft {

// Convolutions that nobody does whole, as matrix products and sums of products (ir/convolution.hpp). Of 16-bit floats
// in f32 where nobody multiplies matrices of them.
Graph decompose_convolution(const Graph& graph, const PassContext& context);

// Matrix products that nobody does as they are. 16-bit floats: the f32 product of casts, where somebody does that.
// Others: a product of elements and a sum, which fuse.
extern const RewriteTable products;
Graph decompose_matmul(const Graph& graph, const PassContext& context = {});

// A part of an order that nobody finds alone, as a slice of the whole order.
extern const RewriteTable orders;
Graph decompose_argsort(const Graph& graph, const PassContext& context = {});

// Sums of 16-bit rows by index as such of f32, rounded once, like every other sum.
extern const RewriteTable wide_scatters;
Graph widen_scatter_add(const Graph& graph, const PassContext& context = {});

// In a group of one process the sum over the group is the value itself.
extern const RewriteTable group_of_one;
Graph local_collectives(const Graph& graph, const PassContext& context = {});

}  // namespace weft
