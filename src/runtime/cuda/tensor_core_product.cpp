#include "runtime/cuda/tensor_core_product.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "base/device_target.hpp"
#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "runtime/cuda/fastest.hpp"
#include "runtime/cuda/kernel_arguments.hpp"
#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {
namespace {

using Tile = ProductTile;

// The tensor map of a matrix that is stored by rows: boxes of `rows` rows and 64 columns.
bool describe(TensorMap& map, DType dtype, const void* at, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              std::uint32_t box_rows) {
  const MappedAxis axes[] = {{columns, 1, Tile::box}, {rows, stride, box_rows}};
  return describe(map, dtype, at, axes);
}

// Rows begin at multiples of 16 bytes, and do not overlap.
bool is_row_stride(std::int64_t stride, std::int64_t columns) {
  return stride >= columns && stride % 8 == 0 && stride < (std::int64_t{1} << 38);
}

}  // namespace

std::optional<bool> tensor_cores_read_by_rows(Device device, const Contraction& contraction) {
  const int wanted = options().own_kernels;
  if (wanted == 0 || (wanted == 1 && !contraction.measures)) return std::nullopt;
  return tensor_cores_take(device, contraction);
}

std::optional<bool> tensor_cores_take(Device device, const Contraction& contraction) {
  const std::optional<Matmul> known = known_product(contraction);
  if (current_device_target()) return std::nullopt;  // of a package: the device there may be another
  if (!known || contraction.is_wide) return std::nullopt;
  const Matmul& p = *known;
  if (p.dtype != DType::bf16 && p.dtype != DType::f16) return std::nullopt;
  if (std::ranges::any_of(contraction.batch, [](Dim size) { return !size.same(Dim(1)); })) return std::nullopt;
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (p.m < Tile::rows || p.n < Tile::columns || p.k < Tile::depth || p.m > most || p.n > most || p.k > most)
    return std::nullopt;
  const std::int64_t c_row = p.has_bias ? std::max(p.c_row, p.n) : p.c_row;
  if (p.a_column != 1 || !is_row_stride(p.a_row, p.k) || p.c_column != 1 || !is_row_stride(c_row, p.n))
    return std::nullopt;
  const bool by_rows = p.b_column == 1 && is_row_stride(p.b_row, p.n);
  if (!by_rows && !(p.b_row == 1 && is_row_stride(p.b_column, p.k))) return std::nullopt;
  const DeviceState* const state = find_device(device);
  if (!state || !state->has(DeviceInstruction::wgmma) || !state->has(DeviceInstruction::tensor_copy) ||
      state->shared_of_block < product_shared)
    return std::nullopt;
  return by_rows;
}

TensorCoreProduct::TensorCoreProduct(DeviceState& device, const Contraction& product, DeviceFunction function)
    : device_(device), product_(*known_product(product)), function_(function) {
  const std::optional<bool> by_rows = tensor_cores_read_by_rows(device.device, product);
  WEFT_CHECK(by_rows, "a product that the kernel for tensor cores does not take");
  by_rows_ = *by_rows;
  if (options().own_kernels == 2) slower_ = 0;
}

bool TensorCoreProduct::run(const void* a, const void* b, const void* bias, void* c, const LibraryProduct& library,
                            const Queue* queue) const {
  std::int8_t slower = slower_.load(std::memory_order_relaxed);
  if (slower < 0 && !device_.is_recorded(queue)) {
    slower = is_slower(a, b, bias, c, library, queue);
    slower_.store(slower, std::memory_order_relaxed);
  }
  return slower <= 0 && launch(a, b, bias, c, queue);
}

// Once in a process for each product.
bool TensorCoreProduct::is_slower(const void* a, const void* b, const void* bias, void* c,
                                  const LibraryProduct& library, const Queue* queue) const {
  struct Known {
    std::mutex mutex;
    std::map<std::array<std::int64_t, 8>, bool> slower;
  };
  static constinit PerDevice<Known> all;
  Known& known = all.of(device_.device);
  const Matmul& p = product_;
  const std::array<std::int64_t, 8> key{static_cast<std::int64_t>(p.dtype), p.has_bias, p.m, p.n, p.k, p.a_row, p.c_row,
                                        by_rows_ ? p.b_row : -p.b_column};
  const std::lock_guard lock(known.mutex);
  const auto [found, fresh] = known.slower.try_emplace(key, false);
  if (fresh) {
    const Fastest fastest = find_fastest(device_.device, 2, [&](std::size_t i) {
      if (i == 1) return launch(a, b, bias, c, queue);
      library.run(a, b, bias, c, queue);
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

bool TensorCoreProduct::launch(const void* a, const void* b, const void* bias, void* c, const Queue* queue) const {
  const Matmul& p = product_;
  std::uintptr_t bits = 0;
  for (const void* each : {a, b, static_cast<const void*>(c)}) bits |= reinterpret_cast<std::uintptr_t>(each);
  if (bits % 16 != 0) return false;
  ProductArguments arguments{};
  arguments.bias = bias;
  arguments.m = p.m, arguments.n = p.n, arguments.k = p.k;
  const bool described = describe(arguments.a, p.dtype, a, p.m, p.k, p.a_row, Tile::rows) &&
                         (by_rows_ ? describe(arguments.b, p.dtype, b, p.k, p.n, p.b_row, Tile::depth)
                                   : describe(arguments.b, p.dtype, b, p.n, p.k, p.b_column, Tile::columns)) &&
                         describe(arguments.c, p.dtype, c, p.m, p.n, std::max(p.c_row, p.n), Tile::box);
  if (!described) return false;
  const std::int64_t tiles = ((p.m + Tile::rows - 1) / Tile::rows) * ((p.n + Tile::columns - 1) / Tile::columns);
  function_.launch({.queue = queue, .x = std::min<std::int64_t>(tiles, device_.multiprocessors)}, arguments);
  return true;
}

}  // namespace weft::runtime::cuda
