#include "runtime/cuda/product_kernel.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/device_target.hpp"
#include "base/options.hpp"
#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/kernel_arguments.hpp"
#include "runtime/cuda/tensor_core_product.hpp"

namespace weft::runtime::cuda {
namespace {

constexpr std::int64_t together = 8;  // 16 bytes
constexpr std::int64_t most = std::int64_t{1} << 30;

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

// An operand of `lines`, rows of a or columns of b, over k.
struct Operand {
  bool by_rows;
  std::int64_t row;
};
std::optional<Operand> operand(std::int64_t lines, std::int64_t k, std::int64_t of_line, std::int64_t of_k) {
  const auto is_apart = [](std::int64_t size, std::int64_t stride) {
    return size == 1 || (stride >= 0 && stride % together == 0);
  };
  if ((of_k == 1 || k == 1) && is_apart(lines, of_line)) return Operand{false, lines == 1 ? 0 : of_line};
  if ((of_line == 1 || lines == 1) && is_apart(k, of_k)) return Operand{true, k == 1 ? 0 : of_k};
  return {};
}

// The batch's axes, of which those that are one are merged. False where a size is a symbol, or too many are left.
bool set_batch(KnownProduct& p, const Contraction& c) {
  std::size_t used = 0;  // from the front; they are moved to the end
  for (std::size_t i = 0; i < c.batch.size(); ++i) {
    const Dim dims[] = {c.batch[i], c.a_batch[i], c.b_batch[i], c.c_batch[i]};
    if (!std::ranges::all_of(dims, [](Dim dim) { return dim.is_constant() && dim.constant() >= 0; })) return false;
    const std::int64_t size = dims[0].constant(), a = dims[1].constant(), b = dims[2].constant(),
                       d = dims[3].constant();
    if (size == 0) return false;
    if (size == 1) continue;
    if (used > 0 && p.a_batch[used - 1] == a * size && p.b_batch[used - 1] == b * size &&
        p.c_batch[used - 1] == d * size) {
      --used;
      p.batch[used] *= size;
    } else if (used < KnownProduct::axes) {
      p.batch[used] = size;
    } else {
      return false;
    }
    p.a_batch[used] = a, p.b_batch[used] = b, p.c_batch[used] = d;
    ++used;
  }
  for (KnownProduct::Axes* axes : {&p.batch, &p.a_batch, &p.b_batch, &p.c_batch})
    std::ranges::rotate(*axes, axes->begin() + static_cast<std::ptrdiff_t>(used));
  return true;
}

std::optional<KnownProduct> known(const Contraction& c) {
  const std::optional<Matmul> product = known_product(c);
  if (!product || c.a_is_chosen() || c.b_is_chosen()) return {};
  const Matmul& m = *product;
  if (m.dtype != DType::bf16 && m.dtype != DType::f16) return {};
  if (m.m < 1 || m.n < 1 || m.k < 1 || m.m > most || m.n > most || m.k > most) return {};
  std::optional<Operand> a = operand(m.m, m.k, m.a_row, m.a_column), b = operand(m.n, m.k, m.b_column, m.b_row);
  if (!a || !b) return {};
  KnownProduct p{.dtype = m.dtype, .is_wide = m.is_wide, .has_bias = m.has_bias, .m = m.m, .n = m.n, .k = m.k};
  if (!set_batch(p, c)) return {};
  p.c_row = m.has_bias ? std::max(m.c_row, m.n) : m.c_row;
  if (m.c_column != 1 && m.n != 1) {
    if ((m.c_row != 1 && m.m != 1) || m.has_bias) return {};
    p.is_turned = true, p.c_row = m.c_column;
    std::swap(a, b), std::swap(p.m, p.n), std::swap(p.a_batch, p.b_batch);
  }
  if (p.c_row < 0) return {};
  p.a_by_rows = a->by_rows, p.a_row = a->row;
  p.b_by_rows = b->by_rows, p.b_row = b->row;
  return p;
}

// Rows begin at multiples of 16 bytes, and do not overlap.
bool is_row_stride(std::int64_t stride, std::int64_t columns) {
  return stride >= columns && stride % together == 0 && stride < (std::int64_t{1} << 38);
}

bool begin_at_packs(std::initializer_list<Dim> offsets) {
  return std::ranges::all_of(offsets, [](Dim offset) { return (offset % Dim(together)).same(Dim(0)); });
}

bool hopper_takes(const DeviceState& state, const KnownProduct& p, const Contraction& c) {
  using Tile = ProductTile;
  if (p.is_wide || p.is_turned || p.items() != 1) return false;
  if (!begin_at_packs({c.a_offset, c.b_offset, c.c_offset})) return false;
  if (p.m < Tile::rows || p.n < Tile::columns || p.k < Tile::depth) return false;
  if (!is_row_stride(p.a_row, p.a_by_rows ? p.m : p.k) || !is_row_stride(p.b_row, p.b_by_rows ? p.n : p.k) ||
      !is_row_stride(p.c_row, p.n))
    return false;
  return state.has(DeviceInstruction::wgmma) && state.has(DeviceInstruction::tensor_copy) &&
         state.shared_of_block >= product_shared;
}

// Copies are of 16 bytes, which lie along lines or along k.
bool warps_take(const KnownProduct& p, const Contraction& c) {
  const auto fits = [&](bool by_rows, std::int64_t lines) { return (by_rows ? lines : p.k) % together == 0; };
  if (!fits(p.a_by_rows, p.m) || !fits(p.b_by_rows, p.n)) return false;
  const auto is_multiple = [](std::int64_t stride) { return stride % together == 0; };
  if (!std::ranges::all_of(p.a_batch, is_multiple) || !std::ranges::all_of(p.b_batch, is_multiple)) return false;
  return begin_at_packs({c.a_offset, c.b_offset}) &&
         pieces(p.m, WarpsTile::lines) * pieces(p.n, WarpsTile::lines) <= most / p.items();
}

}  // namespace

int warp_stages(const DeviceState& state) {
  constexpr std::int64_t blocks_together = 2, many = 4, few = 3;
  // A multiprocessor has little more shared memory than a block may have.
  return state.shared_of_block >= blocks_together * many * WarpsTile::stage ? many : few;
}

namespace {
// Of a tile.
std::int64_t rows_of(const ProductKernel& kernel) { return kernel.by_warps ? WarpsTile::lines : ProductTile::rows; }
std::int64_t columns_of(const ProductKernel& kernel) {
  return kernel.by_warps ? WarpsTile::lines : ProductTile::columns;
}
}  // namespace

ProductTiles ProductKernel::tiles() const {
  return {pieces(product.m, rows_of(*this)), pieces(product.n, columns_of(*this)), product.items(),
          pieces(product.k, by_warps ? WarpsTile::depth : ProductTile::depth)};
}

std::int64_t ProductKernel::workspace() const {
  constexpr std::int64_t element = sizeof(float);
  return slots(cut) * rows_of(*this) * columns_of(*this) * element;
}

std::optional<ProductKernel> product_kernel(Device device, const Contraction& contraction) {
  if (current_device_target()) return {};  // of a package: the device there may be another
  const DeviceState* const state = find_device(device);
  const std::optional<KnownProduct> product = state ? known(contraction) : std::nullopt;
  if (!product) return {};
  ProductKernel kernel{.product = *product};
  kernel.by_warps = !hopper_takes(*state, *product, contraction);
  if (kernel.by_warps && !warps_take(*product, contraction)) return {};
  kernel.stages = warp_stages(*state);
  kernel.cut = best_cut(kernel.tiles(), kernel.by_warps ? cut_by_warps : cut_on_hopper);
  return kernel;
}

std::optional<ProductKernel> wanted_product_kernel(Device device, const Contraction& contraction) {
  const int wanted = options().own_kernels;
  const bool has_library = has_product_library();
  if (wanted == 0 || (wanted == 1 && has_library && !contraction.measures)) return {};
  const std::optional<ProductKernel> kernel = product_kernel(device, contraction);
  if (!kernel || wanted > 1 || !has_library) return kernel;
  // On Hopper the library is faster than the kernel of all devices.
  const DeviceState* const state = find_device(device);
  return kernel->by_warps && state->has(DeviceInstruction::wgmma) ? std::nullopt : kernel;
}

}  // namespace weft::runtime::cuda
