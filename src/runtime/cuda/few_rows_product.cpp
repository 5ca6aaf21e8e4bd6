#include "runtime/cuda/few_rows_product.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "base/fail.hpp"
#include "base/lazy.hpp"

namespace weft::runtime::cuda {

namespace {

constexpr std::int64_t rows_of_tile = 8, sums_of_tile = 128, most_groups = 1024;

// As weft/detail/cuda_few_rows.inc has them.
struct Arguments {
  const void *x, *weights, *bias;
  void* result;
  float* sums;
  std::uint32_t* arrivals;
  std::int64_t x_row, weights_row, result_row;
  int m, n, k;
  int slices, k_of_warp;
  int begins_early;
};

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

// Counters of the blocks that share k, zero between launches. Launches that may run side by side, on different lanes,
// have some each; those of a lane are one after the other. They stay.
std::uint32_t* arrivals(const DeviceState& device, const Queue* queue) {
  struct All {
    std::mutex mutex;
    std::array<Storage*, 64> of_device{};
  };
  static constinit Lazy<All> known;
  All& all = known.get();
  const std::lock_guard lock(all.mutex);
  Storage*& counters = all.of_device[device.device.index];
  if (!counters) {
    const std::vector<std::uint32_t> zeros(most_lanes * most_groups);
    const std::size_t bytes = zeros.size() * sizeof(std::uint32_t);
    Storage* const fresh = allocate(device.device, bytes);
    device_interface(Device::Type::cuda).copy(fresh->data, device.device, zeros.data(), Device(), bytes, nullptr);
    counters = fresh;
  }
  return reinterpret_cast<std::uint32_t*>(counters->data) + device.lane_of(queue) * most_groups;
}

}  // namespace

DepthParts depth_parts(std::int64_t k, std::int64_t depth) {
  constexpr std::int64_t of_instructions = 32;  // of k that a warp multiplies at once
  const std::int64_t slices = std::max<std::int64_t>(pieces(k, few_rows_warps * depth), 1);
  return {slices, pieces(k, slices * few_rows_warps * of_instructions) * of_instructions};
}

FewRowsProduct::FewRowsProduct(const Contraction& contraction, std::int64_t depth, bool begins_early,
                               const Preparation& preparation)
    : product_(contraction, preparation.numbers),
      device_(use(preparation.device)),
      function_(preparation),
      depth_(depth),
      begins_early_(begins_early),
      offsets_(preparation.numbers.add({contraction.a_offset, contraction.b_offset})) {
  WEFT_CHECK(product_.is_constant(), "a product of few rows has sizes that are known");
  library_ = LibraryProduct::make(device_, product_.product(preparation.numbers.constants()));
  arrivals(device_, nullptr);  // not while a call is recorded
}

bool FewRowsProduct::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  if (!product_.fits(numbers, rooms)) return false;
  const Matmul p = product_.product(numbers);
  constexpr std::int64_t together = 8;  // 16 bytes at once
  if (p.m < 1 || p.m > few_rows_most || p.n < 1 || p.k < 1 || p.k % together != 0) return false;
  if (p.a_column != 1 || p.b_row != 1 || p.c_column != 1 || p.c_row < 0) return false;
  if (p.a_row % together != 0 || p.b_column % together != 0 || p.a_row < 0 || p.b_column < 0) return false;
  return numbers[offsets_.begin] % together == 0 && numbers[offsets_.begin + 1] % together == 0 &&
         rooms[0].alignment % 16 == 0 && rooms[1].alignment % 16 == 0;
}

std::size_t FewRowsProduct::workspace(std::span<const std::int64_t> numbers) const {
  const Matmul p = product_.product(numbers);
  const std::int64_t slices = depth_parts(p.k, depth_).slices;
  if (slices == 1) return 0;
  return static_cast<std::size_t>(slices * pieces(p.n, rows_of_tile) * sums_of_tile) * sizeof(float);
}

void FewRowsProduct::run(const StepCall& call) const {
  const Matmul p = product_.product(call.numbers);
  const ProductNumbers::Operands at = product_.first(call.pointers, call.numbers);
  if ((reinterpret_cast<std::uintptr_t>(at.a) | reinterpret_cast<std::uintptr_t>(at.b)) % 16 != 0) {
    WEFT_CHECK(library_, "a product of few rows that cuBLASLt does not take");
    return library_->run(at.a, at.b, at.bias, at.c, call.queue);
  }
  const DepthParts parts = depth_parts(p.k, depth_);
  const std::int64_t tiles = pieces(p.n, rows_of_tile), multiprocessors = device_.multiprocessors;
  const std::int64_t groups = std::min({tiles, std::max<std::int64_t>(multiprocessors / parts.slices, 1), most_groups});
  Arguments arguments{.x = at.a,
                      .weights = at.b,
                      .bias = at.bias,
                      .result = at.c,
                      .sums = reinterpret_cast<float*>(call.workspace.data()),
                      .arrivals = parts.slices > 1 ? arrivals(device_, call.queue) : nullptr,
                      .x_row = p.a_row,
                      .weights_row = p.b_column,
                      .result_row = p.c_row,
                      .m = static_cast<int>(p.m),
                      .n = static_cast<int>(p.n),
                      .k = static_cast<int>(p.k),
                      .slices = static_cast<int>(parts.slices),
                      .k_of_warp = static_cast<int>(parts.k_of_warp),
                      .begins_early = begins_early_};
  void* parameters[] = {&arguments};
  const auto blocks = static_cast<unsigned>(groups * parts.slices), threads = static_cast<unsigned>(function_.threads),
             shared = static_cast<unsigned>(function_.shared);
  if (!launches_dependent(device_, call.queue))
    return check(driver().cuLaunchKernel(function_.entry, blocks, 1, 1, threads, 1, 1, shared, call.queue->stream,
                                         parameters, nullptr),
                 "cuLaunchKernel");
  LaunchAttribute attribute{launch_programmatic_serialization, {}, {1}};
  const LaunchConfiguration configuration{{blocks, 1, 1}, {threads, 1, 1}, shared, call.queue->stream, &attribute, 1};
  check(driver().cuLaunchKernelEx(&configuration, function_.entry, parameters, nullptr), "cuLaunchKernelEx");
}

}  // namespace weft::runtime::cuda
