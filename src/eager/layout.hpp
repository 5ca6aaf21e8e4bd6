// Where elements lie: strided views of memory, their simplification, and copies between them. In: sizes and strides.
// Out: contiguous blocks that kernels walk. Sizes and strides are numbers here; strides count elements.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ir/node.hpp"

namespace weft::eager {

struct Sizes {
  int rank = 0;
  std::int64_t size[max_rank] = {};
  std::int64_t count() const;
};
// The sizes of a type, which must be constant.
Sizes sizes_of(const Type& type);

// Row-major without gaps.
Layout contiguous_layout(const Sizes& sizes);
bool is_contiguous(const Sizes& sizes, const Layout& layout);

// A strided walk over `count` elements with neighbouring axes merged where one stride continues the other. Rank 0 is
// one element; rank 1 with stride 1 is contiguous; rank 1 with stride 0 is one value repeated.
struct Walk {
  Sizes sizes;
  std::int64_t strides[max_rank] = {};
  std::int64_t offset = 0;
  std::int64_t count = 1;
  bool contiguous() const { return sizes.rank == 0 || (sizes.rank == 1 && strides[0] == 1) || count == 0; }
  bool uniform() const { return sizes.rank == 1 && strides[0] == 0; }
};
Walk make_walk(const Sizes& sizes, const Layout& layout);

// Elements begin .. begin + count of the walk as contiguous memory: `data` itself where they lie so, else `scratch`
// after copying. Element sizes are 1, 2, 4 or 8 bytes.
const void* gather_block(const Walk& walk, const void* data, std::size_t element, std::int64_t begin,
                         std::int64_t count, void* scratch);

// Copies every element of `sizes` from one layout to another, in parallel where it pays.
void copy_elements(const Sizes& sizes, std::size_t element, void* to, const Layout& to_layout, const void* from,
                   const Layout& from_layout);

// True for a large transposed operand: walked as it lies, each element would touch a cache line of its own. A
// contiguous copy, which is made in tiles, costs less.
bool walks_badly(const Walk& walk);

// The layout of the same memory under other sizes; empty where only a copy can give them.
std::optional<Layout> reshape_layout(const Sizes& from, const Layout& layout, const Sizes& to);

}  // namespace weft::eager
