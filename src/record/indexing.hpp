// What functions that read or write at positions share. Positions along an axis become positions in the flattened
// tensor, of which gather and the scatters take rows.
#pragma once
#include "record/record.hpp"

namespace weft {

// The operand as i64. Throws where it is no integer.
Tensor integers(const char* name, const At& given, Loc loc);
// The index, with what is negative counted from the end of an axis of this size: this one of the table, or of what is
// made of the table. The user's error where it is computed and out of range.
Tensor from_end(const Tensor& index, Dim size, const char* operation, Loc loc, const Tensor& table, int axis = -1);
// The index, which is where the table is: one integer that the host has, as an Index is, is copied there.
Tensor beside(const Tensor& index, const Tensor& table, Loc loc);
// Every element of `index` is a place of this axis of the table, or the user's error when the value is computed.
void check_places(const Tensor& index, const Tensor& table, int axis, const char* operation, Loc loc);
// The user's error where `fine`, a bool of one element, is false: it says which index is not in [least, end), where
// values are known when this returns, and the index's type elsewhere. `of`: of what, " of axis 0 of f32[2,3]".
void require_in_range(const Tensor& fine, const Tensor& index, Dim least, Dim end, const std::string& of,
                      const char* operation, Loc loc);
// Where an element is, in row-major order: "3", "[0,3]" of two axes.
std::string place_text(std::int64_t element, const Shape& shape);
// This number, counted from the end where it is negative. Throws where the axis has no such place.
Dim place_on_axis(const char* name, Dim index, const Type& type, int axis, Loc loc);
// Elements start, start + step, ..., of which there are `count`, all on the axis.
struct SliceRange {
  Dim start, count;
  std::int64_t step;  // 1 where at most one element is known to be there
};
// start:stop:by of an axis of this size, as Python reads them. Throws where the step is 0.
SliceRange slice_range(const char* name, Dim size, Dim start, Dim stop, Dim by, Loc loc);
// For each element of `index` the position in the flattened `shape` of the element with this index along the axis, and
// with the index's own position along the others.
Tensor flat_positions(const Tensor& index, const Shape& shape, int axis, Loc loc);
// The axis, of an index that has as many axes as the tensor, and is no longer along the others. Throws where it is not
// so.
int check_index(const char* name, const Type& type, const Type& index, int axis, Loc loc);
// The part of `source` that an index of this shape takes. Throws where it is shorter than the index.
Tensor taken_part(const char* name, const Tensor& source, const Shape& index, Loc loc);
// The source of a write into x, in x's dtype. Throws where a floating one would be cut to integers: a tensor, or a
// number that is no integer.
Tensor source_for(const char* name, const At& source, const Tensor& x, Loc loc);

// The source in the dtype of x and in this shape.
Tensor values_like(const char* name, const At& given, const Tensor& x, const Shape& shape, Loc loc);
// The sizes of the first, and those of the second from an axis on.
Shape joined(const Shape& first, const Shape& second, int from);

// The vector that `index` repeats along all axes but this one; empty where it does not repeat one, or has not the size
// of `shape` along another axis. Then what is read and written are rows, slices along the axis.
Tensor repeated_vector(const Tensor& index, const Shape& shape, int axis, Loc loc);
// x with the rows of `updates`, slices along the axis, in the place of those at `index`, a vector in range, or added to
// them.
Tensor update_rows(const Tensor& x, int axis, const Tensor& index, const Tensor& updates, bool adds, Loc loc);
// The rows of `updates` that meet at `index` in a table of this shape.
Tensor meeting(Op op, const Tensor& index, const Tensor& updates, const Shape& table, Loc loc);

// Where the bools are true, i64 [count, rank], which is read at once. Throws in a trace and in the body of a loop.
Tensor places_of_true(const char* name, const Tensor& flags, Loc loc);

// update_slice, where an error about the position ends with `what`.
Tensor write_slice(const Tensor& value, const Tensor& part, int axis, const At& start, const std::string& what,
                   Loc loc);

// The user's error where this bool of one element is false, when it is computed.
void require(const Tensor& condition, const char* operation, Loc loc, const std::string& text);

// Where the greatest or least element so far is: of x, whose cumulative extremes are `extremes`. Of equal ones the
// last.
Tensor extreme_positions(const Tensor& x, const Tensor& extremes, int axis, Loc loc);

}  // namespace weft
