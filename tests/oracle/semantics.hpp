// What each public function means, naively, on the oracle's arrays: PyTorch's conventions as docs/numerics.md and
// weft/ops.hpp state them. Throws Refused where the documentation says that a call is an error.
#pragma once
#include <functional>

#include "oracle/array.hpp"

namespace oracle {

DType promote(const Array& a, const Array& b);

// pointwise, by the public function's name
Array unary(const std::string& name, const Array& x);
Array binary(const std::string& name, const Array& a, const Array& b);
Array where(const Array& condition, const Array& a, const Array& b);
Array cast(const Array& x, DType dtype);
Array bitcast(const Array& x, DType dtype);
Array clamp(const Array& x, const Array& low, const Array& high);
Array gelu(const Array& x, bool by_tanh);
// Inside a composite 16-bit floats and integers are f32; a float is rounded once, to its own dtype.
Array in_wide(const Array& x, const std::function<Array(const Array&)>& compute);
Array stop_gradient(const Array& x);
// The same value as a place of its own, through which an outer gradient passes.
Array variable(const Array& x);

// a op= b: the dtype and the shape stay a's
Array in_place(const std::string& name, const Array& a, const Array& b);

// factories
Array full(const Shape& shape, const Array& value, DType dtype);
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype);
Array arange(double start, double stop, double step, DType dtype);  // in f64, rounded once
Array linspace(double start, double stop, std::int64_t count, DType dtype);
Array eye(std::int64_t rows, std::int64_t columns, DType dtype);

// views and assembling
Array reshape(const Array& x, Shape shape);
Array flatten(const Array& x, std::int64_t first, std::int64_t last);
Array permute(const Array& x, const Shape& axes);
Array transpose(const Array& x, std::int64_t a, std::int64_t b);
Array expand(const Array& x, Shape shape);
Array squeeze(const Array& x, std::int64_t axis);
Array unsqueeze(const Array& x, std::int64_t axis);
inline constexpr std::int64_t slice_end = INT64_MAX / 2;  // stands for weft::slice_end
Array slice(const Array& x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step);
Array select(const Array& x, std::int64_t axis, std::int64_t index);
Array flip(const Array& x, std::int64_t axis);
Array split(const Array& x, std::int64_t axis, std::int64_t size, std::int64_t part);
Array rot90(const Array& x, std::int64_t from, std::int64_t to);
Array atleast(const Array& x, int axes);  // 1 to 3
Array diag_embed(const Array& x);
// x with the part in the place of slice(x, axis, start, stop, step).
Array with_slice(const Array& x, const Array& part, std::int64_t axis, std::int64_t start, std::int64_t stop,
                 std::int64_t step);
Array concat(std::vector<Array> parts, std::int64_t axis);
Array stack(const std::vector<Array>& parts, std::int64_t axis);
Array pad(const Array& x, std::int64_t axis, std::int64_t before, std::int64_t after, std::int64_t interior);

// reductions over axes (none: all), by the public function's name: sum mean prod amax amin any all norm
Array reduce(const std::string& name, const Array& x, const Shape& axes, bool keepdim);
Array cumulative(const std::string& name, const Array& x, std::int64_t axis);  // sum, prod
Array var(const Array& x, const Shape& axes, double correction, bool keepdim);
Array argmax(const Array& x, std::int64_t axis, bool keepdim, bool least);
Array softmax(const Array& x, std::int64_t axis);
Array log_softmax(const Array& x, std::int64_t axis);
Array logsumexp(const Array& x, std::int64_t axis, bool keepdim);

Array matmul(Array a, Array b);
Array gather(const Array& x, const Array& index);
Array one_hot(const Array& index, std::int64_t classes, DType dtype);
Array mse_loss(const Array& prediction, const Array& target);
Array cross_entropy(const Array& logits, const Array& labels);

// Gradients of a floating number with respect to arrays; zeros where nothing reaches. Results can be differentiated.
// Throws Undecided when no array reaches the loss.
std::vector<Array> gradients(const Array& loss, const std::vector<Array>& places);

}  // namespace oracle
