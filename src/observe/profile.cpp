// The measurement: calls until nothing is compiled, whole calls, then calls that are watched step by step; a summary.
#include "weft/profile.hpp"

#include <algorithm>
#include <cmath>

#include "base/fail.hpp"
#include "observe/machine_rates.hpp"
#include "observe/median.hpp"
#include "observe/step_times.hpp"
#include "record/record.hpp"
#include "trace/specialize.hpp"

namespace weft {
namespace {

using detail::machine_rate;
using detail::median;
using detail::StepTimes;
using Clock = StepTimes::Clock;

constexpr int most_first_calls = 6;  // until nothing is compiled any more
constexpr std::size_t least_calls = 3, most_calls = 200;
constexpr double long_enough = 0.5;  // seconds, for each half of the measurement

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void synchronize(const std::vector<Device>& devices) {
  for (const Device device : devices) device_interface(device.type).synchronize(device);
}

// What is left of each step in one call without the steps in its bodies, and how often it ran.
struct InCall {
  double seconds = 0;
  int runs = 0;
};
std::vector<InCall> in_call(const StepTimes& times, std::span<const StepTimes::Call> calls) {
  std::vector<InCall> all(times.steps.size());
  for (const StepTimes::Call& call : calls)
    for (const StepTimes::Run& run : call.runs) {
      const double seconds = run.end - run.begin;
      all[run.step].seconds += seconds;
      ++all[run.step].runs;
      if (const int outer = times.steps[run.step].outer; outer >= 0)
        all[static_cast<std::size_t>(outer)].seconds -= seconds;
    }
  return all;
}

Profile summary(const StepTimes& times, const std::vector<std::size_t>& ends) {
  Profile profile;
  profile.calls = ends.size();
  std::vector<std::vector<double>> seconds(times.steps.size());
  std::vector<double> runs(times.steps.size(), 0), sums;
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    const std::vector<InCall> call = in_call(times, std::span(times.calls).subspan(first, end - first));
    double sum = 0;
    for (std::size_t s = 0; s < call.size(); ++s) {
      seconds[s].push_back(call[s].seconds);
      runs[s] += call[s].runs;
      sum += call[s].seconds;
    }
    sums.push_back(sum);
    first = end;
  }
  profile.seconds_in_steps = median(sums);
  std::vector<std::size_t> order(times.steps.size()), place(times.steps.size());
  for (std::size_t s = 0; s < order.size(); ++s) order[s] = s;
  std::vector<double> medians;
  for (const auto& each : seconds) medians.push_back(median(each));
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t s) { return medians[s]; });
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (const std::size_t s : order) {
    const StepTimes::Step& from = times.steps[s];
    const double runs_a_call = runs[s] / static_cast<double>(ends.size());
    Profile::Step step;
    step.name = from.name;
    step.function = from.function;
    step.computes = from.computes;
    step.by = from.work.by;
    if (from.outer >= 0) step.loop = times.steps[static_cast<std::size_t>(from.outer)].name;
    step.generated = from.work.generated;
    step.runs = runs_a_call;
    step.seconds = medians[s];
    if (!from.work.runs_others) {
      step.bytes = std::llround(static_cast<double>(from.work.bytes) * runs_a_call);
      step.operations = std::llround(static_cast<double>(from.work.operations) * runs_a_call);
    }
    if (step.seconds > 0) {
      step.bandwidth = static_cast<double>(step.bytes) / step.seconds;
      step.rate = static_cast<double>(step.operations) / step.seconds;
    }
    const auto share = [](double rate, double most) { return most > 0 ? rate / most : 0; };
    if (step.bytes > 0) step.of_bandwidth = share(step.bandwidth, machine_rate(from.device, std::nullopt));
    if (step.operations > 0) step.of_peak = share(step.rate, machine_rate(from.device, from.dtype));
    if (profile.machine_bandwidth == 0) profile.machine_bandwidth = machine_rate(from.device, std::nullopt);
    profile.steps.push_back(std::move(step));
  }
  for (const StepTimes::Call& call : times.calls)
    for (const StepTimes::Run& run : call.runs) {
      const double begin = std::chrono::duration<double>(call.begin - times.calls.front().begin).count() + run.begin;
      profile.events.push_back({place[run.step], begin, run.end - run.begin});
    }
  // They came in the order of their ends. A loop before the steps in its body.
  std::ranges::sort(profile.events, {},
                    [](const Profile::Event& event) { return std::pair(event.begin, -event.seconds); });
  return profile;
}

}  // namespace

namespace detail {

Profile profile(void (*call)(void*), void* context) {
  if (recorder().trace())
    fail("profile", {},
         "profile() inside a compiled function would measure its compilation: call it outside, with the compiled "
         "function");
  if (runtime::current_watch) fail("profile", {}, "profile() inside of what another profile() measures");
  StepTimes first;
  for (int i = 0; i < most_first_calls; ++i) {
    const std::uint64_t before = compilations_of_thread;
    const runtime::Watching watching(&first);
    call(context);
    if (i > 0 && compilations_of_thread == before) break;
  }
  const std::uint64_t before = compilations_of_thread;
  std::vector<double> whole;
  for (const Clock::time_point begin = Clock::now();
       whole.size() < least_calls || (whole.size() < most_calls && seconds_since(begin) < long_enough);) {
    synchronize(first.devices);
    const Clock::time_point own = Clock::now();
    call(context);
    synchronize(first.devices);
    whole.push_back(seconds_since(own));
  }
  StepTimes times;
  std::vector<std::size_t> ends;  // of the calls of plans in each call of the function
  for (const Clock::time_point begin = Clock::now();
       ends.size() < least_calls || (ends.size() < most_calls && seconds_since(begin) < long_enough);) {
    const runtime::Watching watching(&times);
    call(context);
    ends.push_back(times.calls.size());
  }
  const std::uint64_t compiled = compilations_of_thread - before;
  Profile profile = summary(times, ends);
  profile.seconds = median(whole);
  profile.compilations = compiled;
  return profile;
}

}  // namespace detail
}  // namespace weft
