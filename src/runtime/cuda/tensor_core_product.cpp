#include "runtime/cuda/tensor_core_product.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "runtime/cuda/block_counters.hpp"
#include "runtime/cuda/fastest.hpp"
#include "runtime/cuda/kernel_arguments.hpp"
#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {
namespace {

using Tile = ProductTile;

std::uintptr_t bits_of(std::initializer_list<const void*> places) {
  std::uintptr_t bits = 0;
  for (const void* each : places) bits |= reinterpret_cast<std::uintptr_t>(each);
  return bits;
}

// The tensor map of a matrix that is stored by rows: boxes of `rows` rows and 64 columns.
bool describe(TensorMap& map, DType dtype, const void* at, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              std::uint32_t box_rows) {
  const MappedAxis axes[] = {{columns, 1, Tile::box}, {rows, stride, box_rows}};
  return describe(map, dtype, at, axes);
}

// That find work at once: the later segments of a unit follow its first one.
std::int64_t blocks(const ProductKernel& kernel) { return kernel.is_cut() ? kernel.cut.width : kernel.cut.tiles; }

}  // namespace

TensorCoreProduct::TensorCoreProduct(DeviceState& device, const ProductKernel& kernel, DeviceFunction function,
                                     bool measures)
    : device_(device), kernel_(kernel), function_(function), slower_(measures ? -1 : 0) {
  if (kernel_.is_cut()) block_counters(device_, nullptr);  // not while a call is recorded
}

bool TensorCoreProduct::run(const Operands& at, const LibraryProduct* library, const Queue* queue) const {
  std::int8_t slower = slower_.load(std::memory_order_relaxed);
  if (slower < 0 && library && !device_.is_recorded(queue)) {
    slower = is_slower(at, *library, queue);
    slower_.store(slower, std::memory_order_relaxed);
  }
  return slower <= 0 && launch(at, queue);
}

// Once in a process for each product.
bool TensorCoreProduct::is_slower(const Operands& at, const LibraryProduct& library, const Queue* queue) const {
  struct Known {
    std::mutex mutex;
    std::map<KnownProduct, bool> slower;
  };
  static constinit PerDevice<Known> all;
  Known& known = all.of(device_.device);
  const KnownProduct& p = kernel_.product;
  const std::lock_guard lock(known.mutex);
  const auto [found, fresh] = known.slower.try_emplace(p, false);
  if (fresh) {
    const Fastest fastest = find_fastest(device_.device, 2, [&](std::size_t i) {
      if (i == 1) return launch(at, queue);
      library.run(at.a, at.b, at.bias, at.c, queue);
      return true;
    });
    found->second = fastest.place == 0;
    if (logging::enabled(logging::Channel::kernels))
      logging::write(logging::Channel::kernels,
                     concat_text("tensor cores, ", info(p.dtype).name, " [", p.m, ",", p.k, "] x [", p.k, ",", p.n,
                                 "]: ", found->second ? "cuBLASLt" : "our own kernel", ", ", fastest.seconds * 1e6,
                                 " us; cuBLASLt ", fastest.seconds_of_first * 1e6));
  }
  return found->second;
}

bool TensorCoreProduct::launch(const Operands& at, const Queue* queue) const {
  if (bits_of({at.a, at.b}) % 16 != 0) return false;
  if (!kernel_.by_warps) return launch_by_groups_of_warps(at, queue);
  launch_by_warps(at, queue);
  return true;
}

bool TensorCoreProduct::launch_by_groups_of_warps(const Operands& at, const Queue* queue) const {
  if (bits_of({at.c}) % 16 != 0) return false;
  const KnownProduct& p = kernel_.product;
  ProductArguments arguments{};
  arguments.bias = at.bias;
  arguments.m = p.m, arguments.n = p.n, arguments.k = p.k;
  arguments.sums = static_cast<float*>(at.workspace), arguments.result = at.c, arguments.c_row = p.c_row;
  arguments.cut = kernel_.cut;
  if (kernel_.is_cut()) arguments.counters = block_counters(device_, queue);
  const bool described = (p.a_by_rows ? describe(arguments.a, p.dtype, at.a, p.k, p.m, p.a_row, Tile::depth)
                                      : describe(arguments.a, p.dtype, at.a, p.m, p.k, p.a_row, Tile::rows)) &&
                         (p.b_by_rows ? describe(arguments.b, p.dtype, at.b, p.k, p.n, p.b_row, Tile::depth)
                                      : describe(arguments.b, p.dtype, at.b, p.n, p.k, p.b_row, Tile::columns)) &&
                         describe(arguments.c, p.dtype, at.c, p.m, p.n, p.c_row, Tile::box);
  if (!described) return false;
  function_.launch({.queue = queue, .x = std::min<std::int64_t>(blocks(kernel_), device_.multiprocessors)}, arguments);
  return true;
}

void TensorCoreProduct::launch_by_warps(const Operands& at, const Queue* queue) const {
  const KnownProduct& p = kernel_.product;
  const auto is_multiple = [](std::int64_t size) { return size % 8 == 0; };
  ProductByWarpsArguments arguments{.a = at.a,
                                    .b = at.b,
                                    .bias = at.bias,
                                    .result = at.c,
                                    .sums = static_cast<float*>(at.workspace),
                                    .counters = nullptr,
                                    .m = p.m,
                                    .n = p.n,
                                    .k = p.k,
                                    .a_row = p.a_row,
                                    .b_row = p.b_row,
                                    .c_row = p.c_row,
                                    .a_batch = p.a_batch,
                                    .b_batch = p.b_batch,
                                    .c_batch = p.c_batch,
                                    .batch = {},
                                    .cut = kernel_.cut,
                                    .is_whole = 0};
  for (std::size_t axis = 0; axis < KnownProduct::axes; ++axis) arguments.batch[axis] = static_cast<int>(p.batch[axis]);
  if (p.is_turned) std::swap(arguments.a, arguments.b);
  if (kernel_.is_cut()) arguments.counters = block_counters(device_, queue);
  arguments.is_whole = bits_of({at.c}) % 16 == 0 && is_multiple(p.n) && is_multiple(p.c_row) &&
                       std::ranges::all_of(p.c_batch, is_multiple);
  constexpr std::int64_t blocks_together = 2;
  function_.launch(
      {.queue = queue, .x = std::min<std::int64_t>(blocks(kernel_), blocks_together * device_.multiprocessors)},
      arguments);
}

}  // namespace weft::runtime::cuda
