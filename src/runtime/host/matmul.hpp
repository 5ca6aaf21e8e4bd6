// Matrix products on the host. In: operands of any row and column strides. Out: c = a b for each batch.
// The result is cut into tiles by the shape alone and a tile is one thread's work from beginning to end, so results do
// not depend on the number of threads. Transposed operands are read where they lie; only an operand that has unit
// stride along neither axis is packed first. The memory that packing takes is the caller's, who has it before anything
// is written.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/host/isa_namespaces.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime {

// c[batch, m, n] = a[batch, m, k] b[batch, k, n]; all strides in elements.
struct Matmul {
  DType dtype = DType::f32;  // of the operands: on the host f32 or f64
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  std::int64_t c_row = 0, c_column = 0;                     // one of them is 1 where its axis is longer than 1
  std::span<const std::int64_t> batch;                      // sizes of the batch axes
  std::span<const std::int64_t> a_batch, b_batch, c_batch;  // and their strides
  bool is_wide = false, has_bias = false, is_tf32 = false;  // as in a Contraction, on a device alone
  // Which matrix of an operand each item of the one batch axis multiplies; null: its own. Numbers beyond the last are
  // the last, those below 0 are 0.
  struct Chosen {
    const std::int64_t* numbers = nullptr;
    std::int64_t matrices = 0;  // how many there are
    std::int64_t operator[](std::int64_t item) const {
      return std::clamp<std::int64_t>(numbers[item], 0, matrices - 1);
    }
  };
  Chosen a_chosen = {}, b_chosen = {};
  // What pack() made of an operand that is the same in many calls; where it is of no use, the operand is read where it
  // lies. Of which kind of operand it is says which way the tiles lie.
  struct Packed {
    const std::byte* panels = nullptr;  // null: nothing
    bool is_left = false;
  };
  Packed a_packed = {}, b_packed = {};
};

// The bytes of workspace with which a product runs on as many threads as a parallel loop has now.
std::size_t matmul_workspace(const Matmul& product);

// Overwrites c, which overlaps neither operand. The workspace is 64-byte aligned and one that matmul_workspace gave for
// this product, or for one that wants more; with less than that for all threads, fewer run.
void matmul(const Matmul& product, const void* a, const void* b, void* c, std::span<std::byte> workspace);

// With a workspace of its own. Throws OutOfMemory before anything is written.
void matmul(const Matmul& product, const void* a, const void* b, void* c);

// One matrix of a product, packed whole for products to come: as the left operand of tiles, or as the right one. The
// panels are those of this process's ISA. A product of it has the bits that it has without.
struct MatmulPacking {
  DType dtype = DType::f32;
  bool is_left = true;                         // of tiles; a_is_left says what a product wants
  std::int64_t size = 0, depth = 0;            // rows of a left operand, columns of a right one
  std::int64_t size_step = 0, depth_step = 0;  // strides in elements, of which one is 1
};
std::size_t packed_bytes(const MatmulPacking& packing);
// Whether a is the left operand of tiles, else b is, where the result lies by rows or by columns. Usually vectors are
// of what lies side by side in the result; of the other axis where they would be emptier by more than it costs to turn
// the sums: of 49 positions 4 vectors of 16 are empty by a quarter. Results have the same bits either way.
bool a_is_left(DType dtype, std::int64_t m, std::int64_t n, bool by_rows);
// `to` is 64-byte aligned.
void pack(const MatmulPacking& packing, const void* from, std::byte* to);

// ---- what matmul.isa.cpp supplies, once an ISA ----------------------------------------------------------------------

// How the rows of a left operand are cut into panels: of about equal heights, since a block of one vector does not keep
// the multipliers busy.
struct MatmulRows {
  static constexpr int most_vectors = 3;
  std::int64_t lanes;  // of a vector
  std::int64_t vectors, panels;
  constexpr MatmulRows(std::int64_t rows, std::int64_t lanes)
      : lanes(lanes), vectors((rows + lanes - 1) / lanes), panels((vectors + most_vectors - 1) / most_vectors) {}
  constexpr std::int64_t vectors_of(std::int64_t panel) const {
    return (panel + 1) * vectors / panels - panel * vectors / panels;
  }
  constexpr std::int64_t begin(std::int64_t panel) const { return panel * vectors / panels * lanes; }
  constexpr std::int64_t size(std::int64_t panel) const { return vectors_of(panel) * lanes; }
};

// A tile: c (rows x columns, unit stride down its columns, unless it is turned) = left (rows x depth) right (depth x
// columns).
struct MatmulTile {
  std::int64_t rows, columns, depth;
  const void* left;
  const void* right;
  void* result;
  std::byte *left_panel, *right_panel;              // this thread's memory for packed copies: matmul_panels of the tile
  std::int64_t left_step, right_step, result_step;  // from a column to the next; with `..._by_rows`, from row to row
  bool left_by_rows, right_by_rows;
  bool left_packed, right_packed;  // this thread's tile before had the same left or right: its packed copy is valid
  // Of an operand that was packed whole: the panels, its rows or columns, and the first panel and how many of the tile.
  struct Whole {
    const void* panels = nullptr;  // null: the tile is packed
    std::int64_t size = 0, first = 0, count = 0;
  };
  Whole left_whole = {}, right_whole = {};
  bool left_is_read = false;  // where it lies, by rows: its panel is not used; the same for all tiles of a product
  bool turned = false;        // the result has unit stride along its rows, and the step is from row to row
};
// Elements of a tile's panels. Operands are packed for the whole depth, so that what two neighbouring tiles share is
// packed once; deeper products than `kept_depth` are packed slice by slice, each where the one before was.
struct MatmulPanels {
  static constexpr std::int64_t kept_depth = 3072;
  // The panels of a slice of this depth, 4 to 12 KiB each, stay in the first cache while a block is computed.
  static constexpr std::int64_t slice_depth = 256;
  // A slice's part of a panel begins on a vector's boundary.
  static constexpr std::int64_t width(std::int64_t size) { return (size + 15) / 16 * 16; }
  std::int64_t left, right;
};
constexpr MatmulPanels matmul_panels(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  const std::int64_t kept = depth <= MatmulPanels::kept_depth ? depth : MatmulPanels::slice_depth;
  const std::int64_t left = MatmulPanels::width(rows) * kept;
  return {left > depth ? left : depth, MatmulPanels::width(columns) * kept};  // a vector is packed as a left panel
}
struct MatmulKernels {
  struct OfDType {
    void (*run)(const MatmulTile&);
    void (*pack)(const MatmulPacking&, const void* from, std::byte* to);
    std::int64_t lanes;           // of a vector
    std::int64_t columns;         // of a panel of a right operand
    std::int64_t direct_columns;  // with at most so many a tile may read the left operand where it lies; 0: never
  };
  OfDType f32, f64;
};
WEFT_FOR_EACH_ISA(extern const MatmulKernels matmul_kernels;)

}  // namespace weft::runtime
