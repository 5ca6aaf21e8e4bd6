// A product of known sizes, cut into tiles for a library that does a tile on one thread. In: a contraction. Out: its
// tiles. The cut depends on the shape alone, so results do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/contraction.hpp"
#include "runtime/host/matmul.hpp"
#include "weft/dim.hpp"

namespace weft::runtime {

class ProductTiles {
 public:
  using Int = std::int64_t;
  // Strides, in elements.
  struct Operand {
    Int row = 0, column = 0;
    std::vector<Int> batch;
    Int at(const std::vector<Int>& sizes, Int item, Int i, Int j) const;
    Int at(const std::vector<Int>& sizes, Int item, Int i, Int j, const Matmul::Chosen& chosen) const;
    // Size-1 axes have arbitrary strides; libraries want consistent ones.
    void settle(Int height, Int width) {
      if (height == 1) row = std::max(width * column, Int{1});
      if (width == 1) column = row == 1 ? height : 1;
    }
  };
  // c (rows x columns) = a (rows x depth) b (depth x columns), + bias (columns) where there is one.
  struct Tile {
    Int rows, columns;
    const void *a, *b, *bias;
    void* c;
    std::byte* scratch;
  };

  // Whether an operand of these sizes and strides can be read: unit stride along one axis of the product's two, and no
  // element twice.
  static bool reads(const Shape& shape, std::span<const Dim> strides);
  // Nothing where sizes are not known, an operand can't be read or there is nothing to multiply.
  static std::optional<ProductTiles> make(const Contraction& contraction);

  DType dtype = DType::f32, result_dtype = DType::f32;
  bool swapped = false;  // c^T = b^T a^T, where c lies by columns
  bool copies = false;   // the result is computed by rows, then put where it belongs
  Int m = 0, n = 0, k = 0, items = 1, rows = 0, columns = 0;  // the last two: of a tile
  std::vector<Int> batch;                                     // sizes
  Operand a, b, c;                                            // c has unit stride along its rows

  Int count() const;
  // The rows, or columns, of the last tile down or across.
  Int last_rows() const { return (m - 1) % rows + 1; }
  Int last_columns() const { return (n - 1) % columns + 1; }
  // Bytes, where each thread wants `scratch` of them: a multiple of 64.
  std::size_t workspace(std::size_t scratch) const;
  // Calls `work` for each tile, in a parallel loop. `now` says what was not known before: where the result lies, and
  // which matrices are chosen.
  struct Operands {
    const void *left, *right, *bias;  // the last may be null
    void* result;
  };
  void run(const Matmul& now, const Operands& operands, std::span<std::byte> workspace, std::size_t scratch,
           void (*work)(void* context, const Tile& tile), void* context) const;

 private:
  std::size_t result_bytes() const;  // of the workspace
};

}  // namespace weft::runtime
