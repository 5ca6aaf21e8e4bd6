#include "runtime/cuda/fourier.hpp"

#include <map>
#include <tuple>

#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {

namespace {

using Kind = Factorization::Kind;

// Numbers of cufft.h: of f32, and of f64.
constexpr int direction_forward = -1, direction_inverse = 1;
int type_of_plan(const Factorization& what) {
  const bool wide = what.dtype == DType::f64;
  switch (what.kind) {
    case Kind::real_fourier: return wide ? 0x6a : 0x2a;
    case Kind::inverse_real_fourier: return wide ? 0x6c : 0x2c;
    default: return wide ? 0x69 : 0x29;
  }
}
// Pairs of a row of so many points.
std::int64_t pairs_of_row(const Factorization& what, std::int64_t points) {
  return what.kind == Kind::fourier ? points : points / 2 + 1;
}

constexpr int threads = 256;
constexpr std::size_t most_kept = 64;  // plans of a device

std::size_t bytes_of_pairs(DType dtype, std::int64_t count) {
  return (storage_bytes(dtype, 2 * count) + 255) / 256 * 256;
}

}  // namespace

// For one thread at a time.
struct DeviceFourier::Plan {
  explicit Plan(Device on) : device(on) { check_fft(fft().cufftCreate(&plan), "cufftCreate"); }
  Plan(const Plan&) = delete;
  ~Plan() {
    wait_before_destroying(device);
    fft().cufftDestroy(plan);
  }
  Device device;
  FftPlan plan = 0;
  std::size_t workspace = 0;
  std::mutex mutex;
};

std::shared_ptr<DeviceFourier::Plan> DeviceFourier::find(std::int64_t rows, std::int64_t points) const {
  struct KnownPlans {
    std::mutex mutex;
    std::map<std::tuple<int, std::int64_t, std::int64_t>, std::shared_ptr<Plan>> plans;
  };
  static constinit PerDevice<KnownPlans> all;
  KnownPlans& known = all.of(device_.device);
  const std::lock_guard lock(known.mutex);
  const std::tuple key(type_of_plan(what_), rows, points);
  if (const auto found = known.plans.find(key); found != known.plans.end()) return found->second;
  use(device_.device);
  auto made = std::make_shared<Plan>(device_.device);
  check_fft(fft().cufftSetAutoAllocation(made->plan, 0), "cufftSetAutoAllocation");
  long long size = points;
  check_fft(fft().cufftMakePlanMany64(made->plan, 1, &size, nullptr, 1, points, nullptr, 1, points, type_of_plan(what_),
                                      rows, &made->workspace),
            "cufftMakePlanMany64");
  if (known.plans.size() >= most_kept) known.plans.clear();  // recordings keep those that they run
  return known.plans.try_emplace(key, std::move(made)).first->second;
}

DeviceFourier::DeviceFourier(const Factorization& what, Dim rows, Dim points, const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(preparation, threads),
      what_(what),
      sizes_(preparation.numbers.add({rows, points})) {}

std::size_t DeviceFourier::workspace(std::span<const std::int64_t> numbers) const {
  const std::int64_t rows = numbers[sizes_.begin], points = numbers[sizes_.begin + 1];
  if (rows * points == 0) return 0;
  return bytes_of_pairs(what_.dtype, rows * pairs_of_row(what_, points)) + find(rows, points)->workspace;
}

void DeviceFourier::run(const StepCall& call) const {
  const std::int64_t rows = call.part(sizes_)[0], points = call.part(sizes_)[1];
  if (rows * points == 0) return;
  const std::int64_t row = pairs_of_row(what_, points), count = rows * row;
  const bool wide = what_.dtype == DType::f64;
  void* const pairs = call.workspace.data();
  const auto move = [&](void* const* parts, bool back) {
    void* const buffers[] = {parts[0], parts[1], pairs};
    const std::int64_t sizes[] = {count, back, what_.kind == Kind::inverse_real_fourier ? row : 0, points % 2 == 0};
    function_.launch_buffers({.queue = call.queue, .x = (count + threads - 1) / threads}, buffers, sizes);
  };
  if (what_.kind != Kind::real_fourier) move(call.pointers, false);
  const std::shared_ptr<Plan> made = find(rows, points);
  device_.keep_while_recorded(call.queue, made);
  {
    const std::lock_guard lock(made->mutex);
    const FftPlan plan = made->plan;
    check_fft(fft().cufftSetStream(plan, call.queue->stream), "cufftSetStream");
    check_fft(fft().cufftSetWorkArea(plan, call.workspace.data() + bytes_of_pairs(what_.dtype, count)),
              "cufftSetWorkArea");
    const int direction = what_.inverse ? direction_inverse : direction_forward;
    if (what_.kind == Kind::real_fourier)
      check_fft((wide ? fft().cufftExecD2Z : fft().cufftExecR2C)(plan, call.pointers[0], pairs), "cufftExecR2C");
    else if (what_.kind == Kind::inverse_real_fourier)
      check_fft((wide ? fft().cufftExecZ2D : fft().cufftExecC2R)(plan, pairs, call.pointers[2]), "cufftExecC2R");
    else
      check_fft((wide ? fft().cufftExecZ2Z : fft().cufftExecC2C)(plan, pairs, pairs, direction), "cufftExecC2C");
  }
  if (what_.kind == Kind::fourier) move(call.pointers + 2, true);
  if (what_.kind == Kind::real_fourier) move(call.pointers + 1, true);
}

}  // namespace weft::runtime::cuda
