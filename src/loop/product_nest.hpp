// The loops of a product: tiles of rows and columns whose sums are held, and a walk over the inner axis in chunks, each
// of which is staged first: what the product multiplies is computed once for a tile, as a whole, and kept in panels.
// In: a kernel with a product (ReductionKind::product), whatever feeds it and whatever reads it. Out: its tree, the
// same for both targets but for the roles of loops and the sizes of tiles.
#pragma once
#include "loop/nest.hpp"

namespace weft::loop {

struct ProductTile {
  std::int64_t rows, columns, depth;
};
inline constexpr ProductTile host_tile{24, column_block, 256}, device_tile{64, 64, 16};

// The kernel's product, or -1.
int product_in(const Kernel& kernel);
// An outer axis on which the left operand depends and the right one does not.
int product_rows(const Kernel& kernel, const Analysis& analysis);

Nest product_nest(const Kernel& kernel, const ProductTile& tile, bool on_device);

}  // namespace weft::loop
