// Statistics of samples: what is frequent, in the middle, how far apart, in which bin; integrals and derivatives of
// sampled functions. Names and meanings are PyTorch's. All throw Error on shapes and dtypes that do not fit.
#pragma once
#include "weft/ops.hpp"

namespace weft {

namespace detail {
template <class T>
concept NumberForBool = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
}

// The most frequent element along an axis, the least of several, and the last place where it is. NaN is equal to
// nothing. The axis goes unless keepdim. Throws where it is empty.
ValuesAndIndices mode(At x, int axis = -1, bool keepdim = false);
void mode(At, int, detail::NumberForBool auto) = delete;  // weft: keepdim is a bool, as in mode(x, 0, true)
// The median of the elements that are not NaN: NaN where there is none, with the place 0.
ValuesAndIndices nanmedian(At x, int axis, bool keepdim = false);
void nanmedian(At, int, detail::NumberForBool auto) = delete;  // weft: keepdim is a bool, as in nanmedian(x, 0, true)
Tensor nanmedian(At x);                                        // of all elements
// The quantile of the elements that are not NaN: NaN where there is none. Floating; f16 and bf16 are computed in f32.
// Throws where q is not in [0, 1], and where the axis is empty.
Tensor nanquantile(At x, double q, int axis, bool keepdim = false);
void nanquantile(At, double, int, detail::NumberForBool auto) = delete;  // weft: keepdim is a bool
Tensor nanquantile(At x, double q);                                      // of all elements
// Several: the result has an axis for them before the others. Throws where there are none.
Tensor nanquantile(At x, std::span<const double> q, int axis, bool keepdim = false);
Tensor nanquantile(At x, std::initializer_list<double> q, int axis, bool keepdim = false);
Tensor nanquantile(At x, std::span<const double> q);  // of all elements: a vector
Tensor nanquantile(At x, std::initializer_list<double> q);

// The p-norm of a - b, which broadcast, over all elements: linalg::vector_norm. Floating.
Tensor dist(At a, At b, double p = 2);
// x with each slice along the axis whose p-norm is above maxnorm scaled down to it: by maxnorm / (norm + 1e-7).
// Floating. Throws where x has fewer than two axes, p is not positive, or maxnorm is negative.
Tensor renorm(At x, double p, int axis, double maxnorm);

struct Histogram {  // what histogram() gives
  Tensor counts;    // of each bin: a vector in the dtype of x; sums of weights, or densities
  Tensor edges;     // one more than there are bins
  WEFT_MEMBERS(counts, edges)
};
struct HistogramOptions {  // of histogram()
  Tensor weight = {};      // what each element counts, of the shape and dtype of x; undefined: 1
  bool density = false;    // counts are divided by their sum and the width of their bin, so that the integral is 1
};
// How many elements of a floating x are in each bin: from an edge on and below the next one; the last bin has its upper
// edge too. What is in none does not count. Bins of equal width from the least element to the greatest, which are half
// a unit further where they are equal, or from `low` to `high`; or bins between ascending edges, a vector. Throws, or
// stops the call, where x has a NaN or an infinity and no bounds are given.
Histogram histogram(At x, std::int64_t bins, const HistogramOptions& options = {});
Histogram histogram(At x, std::int64_t bins, double low, double high, const HistogramOptions& options = {});
Histogram histogram(At x, const Tensor& edges, const HistogramOptions& options = {});

// The values of the flattened x without those that are equal to the one before them; where each element went, in the
// shape of x, and how many went there. NaN differs from itself. The sizes of the results depend on values, as those of
// unique (weft/ops.hpp).
Unique unique_consecutive(At x);
// bool: which elements are among the others, or with `invert` are not. NaN is not.
Tensor isin(At elements, At test_elements, bool invert = false);

// The integral along an axis by the trapezoidal rule, at the places x: a vector, or a tensor that broadcasts with y.
Tensor trapezoid(At y, At x, int axis = -1);
// The integral from the first place to each of the others: one element less along the axis.
Tensor cumulative_trapezoid(At y, double dx = 1, int axis = -1);
Tensor cumulative_trapezoid(At y, At x, int axis = -1);
// The derivative along each of these axes (none: all), of values at distances `spacing`, one for all axes or one for
// each, or at coordinates, a vector for each axis: central differences of second order inside, and at the ends
// differences to one neighbour, or under edge_order 2 of second order to two (Fornberg 1988). Integers become f32.
// Throws where an axis has not more than edge_order elements.
std::vector<Tensor> gradient(At x, double spacing = 1, Axes axes = {}, int edge_order = 1);
std::vector<Tensor> gradient(At x, std::initializer_list<double> spacings, Axes axes = {}, int edge_order = 1);
std::vector<Tensor> gradient(At x, std::initializer_list<Tensor> coordinates, Axes axes = {}, int edge_order = 1);
std::vector<Tensor> gradient(At x, std::span<const Tensor> coordinates, Axes axes = {}, int edge_order = 1);

}  // namespace weft
