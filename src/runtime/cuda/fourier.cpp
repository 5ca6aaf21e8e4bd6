#include "runtime/cuda/fourier.hpp"

#include <map>
#include <tuple>

#include "base/lazy.hpp"

namespace weft::runtime::cuda {

namespace {

// Numbers of cufft.h.
constexpr int pairs_of_f32 = 0x29, pairs_of_f64 = 0x69, direction_forward = -1, direction_inverse = 1;

constexpr int threads = 256;
constexpr std::size_t most_kept = 64;  // plans of a device

std::size_t bytes_of_pairs(DType dtype, std::int64_t count) {
  return (storage_bytes(dtype, 2 * count) + 255) / 256 * 256;
}

}  // namespace

// For one thread at a time.
struct DeviceFourier::Plan {
  Plan() { check_fft(fft().cufftCreate(&plan), "cufftCreate"); }
  Plan(const Plan&) = delete;
  ~Plan() { fft().cufftDestroy(plan); }
  FftPlan plan = 0;
  std::size_t workspace = 0;
  std::mutex mutex;
};

std::shared_ptr<DeviceFourier::Plan> DeviceFourier::find(DeviceState& device, DType dtype, std::int64_t rows,
                                                         std::int64_t points) {
  struct Known {
    std::mutex mutex;
    std::map<std::tuple<DType, std::int64_t, std::int64_t>, std::shared_ptr<Plan>> plans;
  };
  static constinit Lazy<std::array<Known, 64>> all;
  Known& known = all.get()[device.device.index];
  const std::lock_guard lock(known.mutex);
  const std::tuple key(dtype, rows, points);
  if (const auto found = known.plans.find(key); found != known.plans.end()) return found->second;
  use(device.device);
  auto made = std::make_shared<Plan>();
  check_fft(fft().cufftSetAutoAllocation(made->plan, 0), "cufftSetAutoAllocation");
  long long size = points;
  check_fft(fft().cufftMakePlanMany64(made->plan, 1, &size, nullptr, 1, points, nullptr, 1, points,
                                      dtype == DType::f64 ? pairs_of_f64 : pairs_of_f32, rows, &made->workspace),
            "cufftMakePlanMany64");
  if (known.plans.size() >= most_kept) known.plans.clear();
  return known.plans.try_emplace(key, std::move(made)).first->second;
}

DeviceFourier::DeviceFourier(const Factorization& what, Dim rows, Dim points, const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(preparation, threads),
      dtype_(what.dtype),
      inverse_(what.inverse),
      sizes_(preparation.numbers.add({rows, points})) {}

std::size_t DeviceFourier::workspace(std::span<const std::int64_t> numbers) const {
  const std::int64_t rows = numbers[sizes_.begin], points = numbers[sizes_.begin + 1];
  if (rows * points == 0) return 0;
  return bytes_of_pairs(dtype_, rows * points) + find(device_, dtype_, rows, points)->workspace;
}

void DeviceFourier::run(const StepCall& call) const {
  const std::int64_t rows = call.part(sizes_)[0], points = call.part(sizes_)[1], count = rows * points;
  if (count == 0) return;
  void* const pairs = call.workspace.data();
  const auto move = [&](void* const* parts, bool back) {
    void* const buffers[] = {parts[0], parts[1], pairs};
    const std::int64_t sizes[] = {count, back};
    launch(device_, call.queue, function_, (count + threads - 1) / threads, buffers, sizes);
  };
  move(call.pointers, false);
  const std::shared_ptr<Plan> plan = find(device_, dtype_, rows, points);
  {
    const std::lock_guard lock(plan->mutex);
    check_fft(fft().cufftSetStream(plan->plan, call.queue->stream), "cufftSetStream");
    check_fft(fft().cufftSetWorkArea(plan->plan, call.workspace.data() + bytes_of_pairs(dtype_, count)),
              "cufftSetWorkArea");
    const int direction = inverse_ ? direction_inverse : direction_forward;
    if (dtype_ == DType::f64)
      check_fft(fft().cufftExecZ2Z(plan->plan, pairs, pairs, direction), "cufftExecZ2Z");
    else
      check_fft(fft().cufftExecC2C(plan->plan, pairs, pairs, direction), "cufftExecC2C");
  }
  move(call.pointers + 2, true);
}

}  // namespace weft::runtime::cuda
