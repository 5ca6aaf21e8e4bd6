// Reading and writing by several subscripts: numbers, slices, index tensors, masks and new axes; and more functions
// that write at positions, beside those of weft/ops.hpp. Names and meanings are PyTorch's.
#pragma once
#include "weft/ops.hpp"

namespace weft {

// start:stop:step, as slice() (weft/ops.hpp) reads them: Range{1, 3} is 1:3, Range{.step = 2} is ::2.
struct Range {
  Dim start = slice_end;  // the first place; slice_end: the end that the step leads from
  Dim stop = slice_end;   // before this place; slice_end: the end that the step leads to
  Dim step = 1;           // negative: backwards
};
struct NewAxis {};                     // None: a new axis of size 1
inline constexpr NewAxis newaxis{};    // as a subscript
struct Ellipsis {};                    // ...: as many whole axes as the other subscripts leave
inline constexpr Ellipsis ellipsis{};  // as a subscript, at most once

// One of the subscripts that index() and index_put() take for the axes of a tensor, in their order.
class Subscript {
 public:
  enum class Kind : std::uint8_t { range, element, new_axis, rest, tensor };  // what a subscript is

  Subscript() = default;                                                  // {}, the whole axis
  Subscript(Range part) : kind_(Kind::range), range_(part) {}             // a part of an axis
  Subscript(Dim index) : kind_(Kind::element), range_{.start = index} {}  // one position: the axis goes
  template <std::integral T>
  requires(!std::is_same_v<T, bool>) Subscript(T index) : Subscript(Dim(index)) {}  // the same
  Subscript(NewAxis) : kind_(Kind::new_axis) {}  // no axis of the tensor, a new one of the result
  Subscript(Ellipsis) : kind_(Kind::rest) {}     // the axes that are left
  // Positions along an axis, integers; or a mask, bool, of as many axes as it has. Undefined: the whole axis.
  Subscript(Tensor indices) : kind_(indices.defined() ? Kind::tensor : Kind::range), tensor_(std::move(indices)) {}
  Subscript(const Param& indices) : Subscript(indices.tensor()) {}   // the same
  Subscript(const Buffer& indices) : Subscript(indices.tensor()) {}  // the same
  Subscript(const Index& index) : Subscript(index.tensor()) {}       // a position that is known when it runs

  Kind kind() const { return kind_; }               // which of these it is
  const Range& range() const { return range_; }     // the part; of an element its position, as `start`
  const Tensor& tensor() const { return tensor_; }  // the positions or the mask

 private:
  Kind kind_ = Kind::range;
  Range range_;
  Tensor tensor_;
};

// x at these subscripts: index(x, {mask, {}, -1}) is x[mask, :, -1], index(x, {ellipsis, newaxis, Range{0, 3}, at}) is
// x[..., None, 0:3, at]. Axes that the subscripts leave at the end are whole. Negative positions count from the end.
// Index tensors and masks broadcast to one shape, which is in the place of the axes that they take, or first where
// another axis of the result lies between these. Numbers go first, as in PyTorch: x[0, :, at] is x[0][:, at], where
// NumPy moves the axes of `at` to the front. The size of what a mask selects depends on values, as that of nonzero
// (weft/ops.hpp). Throws on more subscripts than axes, on a number out of range and a mask of other sizes; throws, or
// stops the call, on an index tensor out of range.
Tensor index(At x, std::span<const Subscript> subscripts);
Tensor index(At x, std::initializer_list<Subscript> subscripts);
// x with these values at the subscripts, or with `accumulate` plus them: x[...] = values, x[...] += values. Values
// broadcast to the shape of index(x, subscripts). Of equal places the last value stays, or all are added. A floating
// source for an x of integers or bools is an error.
Tensor index_put(At x, std::span<const Subscript> subscripts, At values, bool accumulate = false);
// A template, so that a list of tensors alone is that of weft/ops.hpp.
template <class = void>
Tensor index_put(At x, std::initializer_list<Subscript> subscripts, At values, bool accumulate = false) {
  return index_put(x, std::span(subscripts.begin(), subscripts.size()), values, accumulate);
}

// x with the elements of the source at these positions in the flattened x, or with `accumulate` plus them; of equal
// positions the last one stays. As many of the one as of the other. Negative positions count from the end. A floating
// source for an x of integers or bools is an error.
Tensor put(At x, At index, At source, bool accumulate = false);
// x with what this reduction makes of the slices of the source that meet at these positions, a vector, along the axis,
// and of the slice of x there (include_self). scatter_reduce by a vector; for sums there is index_add.
Tensor index_reduce(At x, int axis, At index, At source, ScatterReduction reduce, bool include_self = true);

}  // namespace weft
