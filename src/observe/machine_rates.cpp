#include "observe/machine_rates.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "observe/step_times.hpp"
#include "weft/compile.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft::detail {
namespace {

// The highest rate of the steps of some calls, watched: of bytes or of operations a second.
double best_rate(void (*call)(void*), void* context, std::int64_t StepWork::*work) {
  constexpr int times = 5;
  StepTimes times_of_steps;
  const runtime::Watching watching(&times_of_steps);
  for (int i = 0; i < times; ++i) call(context);
  double best = 0;
  for (const StepTimes::Call& each : times_of_steps.calls)
    for (const StepTimes::Run& run : each.runs)
      best = std::max(best, static_cast<double>(times_of_steps.steps[run.step].work.*work) / (run.end - run.begin));
  return best;
}
template <class F>
double best_rate(F f, std::int64_t StepWork::*work) {
  return best_rate([](void* context) { (*static_cast<F*>(context))(); }, &f, work);
}

// x + 1 over more than caches hold.
double measure_bandwidth(Device device) {
  const std::int64_t elements = std::int64_t{1} << (device.type == Device::Type::cpu ? 25 : 28);
  Generator generator(20240607);
  const Tensor x = to(uniform({elements}, 0, 1, generator), device);
  const auto add = compile([](const Tensor& x) { return x + 1.0f; });
  return best_rate([&] { static_cast<void>(add(x)); }, &StepWork::bytes);
}
// A product of large matrices of random numbers.
double measure_peak(Device device, DType dtype) {
  const std::int64_t size = device.type == Device::Type::cpu ? (dtype == DType::f64 ? 768 : 1024) : 4096;
  Generator generator(20240607);
  const auto random = [&] { return to(cast(normal({size, size}, 0, 1, generator), dtype), device); };
  const Tensor a = random(), b = random();
  const auto multiply = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  return best_rate([&] { static_cast<void>(multiply(a, b)); }, &StepWork::operations);
}

}  // namespace

double machine_rate(Device device, std::optional<DType> dtype) {
  static constinit Lazy<std::map<std::tuple<Device::Type, int, int>, double>> known;
  ProcessMutex& mutex = process_mutex(LockOrder::rates);
  const std::tuple key(device.type, static_cast<int>(device.index), dtype ? static_cast<int>(*dtype) : -1);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.get().find(key); found != known.get().end()) return found->second;
  }
  double rate = 0;
  try {
    rate = dtype ? measure_peak(device, *dtype) : measure_bandwidth(device);
  } catch (const OutOfMemory&) {
  }
  const std::lock_guard lock(mutex);
  return known.get()[key] = rate;
}

}  // namespace weft::detail
