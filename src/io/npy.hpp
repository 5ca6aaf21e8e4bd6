// NumPy's NPY format: a magic, the length of a header, the header (a Python dict of descr, fortran_order and shape),
// and the elements. numpy.lib.format describes it. No reference to NumPy's objects: such files are refused.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/node.hpp"

namespace weft::io {

struct NpyHeader {
  Type type;                // as it lies: of column-major elements the axes are reversed
  bool reversed = false;    // whether they are
  bool swapped = false;     // big-endian
  std::uint64_t bytes = 0;  // of all elements
};

// Enough bytes of a file to know where its header ends.
inline constexpr std::size_t npy_prefix = 12;
struct NpyText {
  std::size_t begin, end;  // of the header; elements follow
};
// Throw DamagedFile.
NpyText npy_text(std::span<const std::uint8_t> prefix);
NpyHeader read_npy_header(std::string_view text);

// Everything before the elements, padded so that they begin at a multiple of 64. Throws Error where NumPy has no such
// dtype.
std::string write_npy_header(const char* operation, const Type& type, Loc loc);

// Elements as they should be, from elements as they lie.
void swap_bytes(std::uint8_t* bytes, std::uint64_t count, std::size_t width);
Tensor with_axes_of(const NpyHeader& header, Tensor value);

}  // namespace weft::io
