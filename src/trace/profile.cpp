#include "weft/profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"
#include "trace/function.hpp"
#include "trace/median.hpp"
#include "trace/step_times.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft {
namespace {

using detail::median;
using detail::StepTimes;
using Clock = StepTimes::Clock;

constexpr int most_first_calls = 6;  // until nothing is compiled any more
constexpr std::size_t least_calls = 3, most_calls = 200;
constexpr double long_enough = 0.5;  // seconds, for each half of the measurement

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// ---- what the machine can do ----------------------------------------------------------------------------------------

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

// Measured at the first question, under no lock: threads that ask at once may both measure. 0: there was no memory.
double of_machine(Device device, std::optional<DType> dtype) {
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

// ---- the measurement ------------------------------------------------------------------------------------------------

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
    if (step.bytes > 0) step.of_bandwidth = share(step.bandwidth, of_machine(from.device, std::nullopt));
    if (step.operations > 0) step.of_peak = share(step.rate, of_machine(from.device, from.dtype));
    if (profile.machine_bandwidth == 0) profile.machine_bandwidth = of_machine(from.device, std::nullopt);
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

// ---- as text --------------------------------------------------------------------------------------------------------

std::string format(const char* pattern, double value) {
  char text[40];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}
std::string time_text(double seconds) {
  return seconds >= 1      ? format("%.3g s", seconds)
         : seconds >= 1e-3 ? format("%.3g ms", seconds * 1e3)
                           : format("%.3g us", seconds * 1e6);
}
std::string percent(double share) { return share > 0 ? format("%.0f %%", share * 100) : ""; }
std::string billions(double rate) { return rate > 0 ? format("%.3g", rate / 1e9) : ""; }

// "matmul by oneDNN: matmul f32[64,256], model.cpp:12 and 2 more".
std::string description(const Profile::Step& step) {
  constexpr std::size_t shown = 2;
  std::string text = step.name + (step.by.empty() ? "" : " by " + step.by);
  if (!step.loop.empty()) text += " in " + step.loop;
  for (std::size_t i = 0; i < std::min(shown, step.computes.size()); ++i)
    text += (i == 0 ? ": " : "; ") + step.computes[i];
  if (step.computes.size() > shown) text += " and " + std::to_string(step.computes.size() - shown) + " more";
  return text;
}

using Row = std::array<std::string, 8>;

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      text += std::string(widths[i] - row[i].size(), ' ') + row[i] + "  ";
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace

std::string to_string(const Profile& profile) {
  std::string text = concat_text("a call takes ", time_text(profile.seconds), "; its steps, one by one, ",
                                 time_text(profile.seconds_in_steps), " (medians, ", profile.calls, " calls)\n");
  if (profile.compilations > 0)
    text += concat_text("the calls compiled ", profile.compilations,
                        " times while they were measured: docs/troubleshooting.md says what to do\n");
  if (profile.steps.empty()) return text + "no compiled function ran: operations outside of compile() are not seen\n";
  text += concat_text("this machine moves ", format("%.3g", profile.machine_bandwidth / 1e9),
                      " GB/s; its peak is that of large products in the step's dtype\n");
  std::vector<Row> rows{{"time", "share", "runs", "GB/s", "of bandwidth", "GFLOP/s", "of peak", "step"}};
  for (const Profile::Step& step : profile.steps)
    rows.push_back({time_text(step.seconds), percent(step.seconds / profile.seconds_in_steps),
                    format("%.3g", step.runs), billions(step.bandwidth), percent(step.of_bandwidth),
                    billions(step.rate), percent(step.of_peak), description(step)});
  text += table(rows);
  std::set<std::string> functions;
  for (const Profile::Step& step : profile.steps) functions.insert(step.function);
  text += "compiled functions:";
  for (const std::string& function : functions) text += (function == *functions.begin() ? " " : "; ") + function;
  return text + "\n";
}
std::ostream& operator<<(std::ostream& out, const Profile& profile) { return out << to_string(profile); }

void Profile::chrome_trace(const std::string& path) const {
  nlohmann::json all = nlohmann::json::array();
  for (const Event& event : events) {
    const Step& step = steps.at(event.step);
    all.push_back({{"name", step.name},
                   {"cat", step.generated ? "kernel" : "library"},
                   {"ph", "X"},
                   {"ts", event.begin * 1e6},
                   {"dur", event.seconds * 1e6},
                   {"pid", 0},
                   {"tid", step.loop.empty() ? 0 : 1},
                   {"args", {{"computes", step.computes}, {"by", step.by}, {"function", step.function}}}});
  }
  std::ofstream out(path);
  out << nlohmann::json{{"traceEvents", all}, {"displayTimeUnit", "ns"}}.dump(-1, ' ', false,
                                                                              nlohmann::json::error_handler_t::replace);
  out.close();
  if (!out) fail("profile", {}, "the trace can't be written to ", path);
}

namespace detail {

Profile profile(void (*call)(void*), void* context) {
  if (runtime::current_watch) fail("profile", {}, "profile() inside of what another profile() measures");
  StepTimes first;
  for (int i = 0; i < most_first_calls; ++i) {
    const std::uint64_t before = compilations_of_thread;
    const runtime::Watching watching(&first);
    call(context);
    if (i > 0 && compilations_of_thread == before) break;
  }
  std::vector<Device> devices;
  for (const StepTimes::Step& step : first.steps)
    if (std::ranges::find(devices, step.device) == devices.end()) devices.push_back(step.device);

  const std::uint64_t before = compilations_of_thread;
  std::vector<double> whole;
  for (const Clock::time_point begin = Clock::now();
       whole.size() < least_calls || (whole.size() < most_calls && seconds_since(begin) < long_enough);) {
    synchronize(devices);
    const Clock::time_point own = Clock::now();
    call(context);
    synchronize(devices);
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
