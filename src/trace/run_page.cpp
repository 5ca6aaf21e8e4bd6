#include "trace/run_page.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "weft/version.hpp"

namespace weft::codegen {
extern const char embedded_run_page[];
}

namespace weft::detail::run_page {
namespace {

using Clock = StepTimes::Clock;
using Json = nlohmann::json;

constexpr std::size_t most_calls_drawn = 4000, most_moments = 4096;
constexpr std::size_t most_watched = 3;  // calls of a specialization

struct Made {
  Json shown;                                    // what does not change any more
  std::vector<std::pair<double, double>> calls;  // begin and length of those that are drawn
  std::size_t call_count = 0;
  double call_seconds = 0;
  std::vector<std::vector<double>> watched;  // by call: seconds of each step
};

struct State {
  ProcessMutex& mutex = process_mutex(LockOrder::page);
  std::string folder;
  Clock::time_point begin = Clock::now();
  std::time_t started = std::time(nullptr);
  Clock::time_point written{};
  std::vector<Made> made;
  std::unordered_map<const Specialization*, std::size_t> places;  // into made; an address may come again
  std::size_t drawn = 0, left_out = 0;
  std::vector<std::pair<double, std::int64_t>> memory;  // bytes in use from each moment on
  std::int64_t in_use = 0;
};
State& state() {
  static constinit Lazy<State> instance;
  return instance.get();
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Two moments become one, of the larger value: no peak is lost.
void halve(std::vector<std::pair<double, std::int64_t>>& moments) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < moments.size(); i += 2, ++kept) {
    const std::size_t other = std::min(i + 1, moments.size() - 1);
    moments[kept] = {moments[i].first, std::max(moments[i].second, moments[other].second)};
  }
  moments.resize(kept);
}
void note_storage(std::int64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.in_use += bytes;
  s.memory.emplace_back(seconds_between(s.begin, Clock::now()), s.in_use);
  if (s.memory.size() > most_moments) halve(s.memory);
}

Json work_json(const std::string& name, const StepWork& work, const std::vector<std::string>& computes) {
  return {
      {"name", name}, {"by", work.by}, {"bytes", work.bytes}, {"operations", work.operations}, {"computes", computes}};
}

Json shown(const Compilation& compilation) {
  const Specialization& made = *compilation.made;
  Json all{{"function", compilation.function},
           {"number", made.number},
           {"reason", compilation.reason},
           {"guards", compilation.guards},
           {"fallback", made.fallback},
           {"steps", Json::array()},
           {"kernels", Json::array()},
           {"passes", Json::array()},
           {"temporaries", Json::array()},
           {"arena_bytes", 0},
           {"traced", ""},
           {"optimized", ""},
           {"schedule", ""}};
  if (!made.executable) {
    all["traced"] = to_text(made.traced.graph);
    return all;
  }
  const Texts texts = texts_of(*made.executable);
  all["traced"] = texts.traced;
  all["optimized"] = texts.optimized;
  all["schedule"] = texts.schedule;
  all["arena_bytes"] = made.executable->arena_bytes;
  for (const Texts::Step& step : texts.steps) all["steps"].push_back(work_json(step.name, step.work, step.computes));
  for (const KernelReport& kernel : texts.kernels)
    all["kernels"].push_back(
        {{"name", kernel.name}, {"bytes", kernel.bytes}, {"operations", kernel.operations}, {"source", kernel.source}});
  for (const StageReport& stage : made.executable->stages)
    all["passes"].push_back({{"name", stage.name}, {"milliseconds", stage.milliseconds}, {"size", stage.size}});
  for (const Texts::Temporary& one : texts.temporaries)
    all["temporaries"].push_back(
        {{"type", one.type}, {"offset", one.offset}, {"bytes", one.bytes}, {"first", one.first}, {"last", one.last}});
  return all;
}

std::string machine() {
  std::ifstream in("/proc/cpuinfo");
  std::string model = "a CPU";
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  return concat_text(model, " with ", std::thread::hardware_concurrency(), " threads");
}

Json json_of(const Made& made) {
  Json all = made.shown;
  all["call_count"] = made.call_count;
  all["call_seconds"] = made.call_seconds;
  all["calls"] = made.calls;
  all["watched"] = made.watched.size();
  for (std::size_t step = 0; step < all["steps"].size(); ++step) {
    std::vector<double> seconds;
    for (const std::vector<double>& call : made.watched)
      if (step < call.size()) seconds.push_back(call[step]);
    if (seconds.empty()) continue;
    std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
    all["steps"][step]["seconds"] = seconds[seconds.size() / 2];
  }
  return all;
}

// The mutex is held.
void write(State& s, bool complete) {
  char started[32] = {};
  std::tm parts{};
  std::strftime(started, sizeof started, "%Y-%m-%d %H:%M:%S", localtime_r(&s.started, &parts));
  Json all{{"program", program_invocation_short_name},
           {"process", getpid()},
           {"started", started},
           {"machine", machine()},
           {"version", version()},
           {"complete", complete},
           {"seconds", seconds_between(s.begin, Clock::now())},
           {"calls_left_out", s.left_out},
           {"memory", s.memory},
           {"compilations", Json::array()}};
  for (const Made& made : s.made) all["compilations"].push_back(json_of(made));
  std::string data;
  for (const char c : all.dump(-1, ' ', false, Json::error_handler_t::replace))
    c == '<' ? data += "\\u003c" : data += c;  // nothing in it ends the script
  std::string page = codegen::embedded_run_page;
  const std::string mark = "@DATA@";
  page.replace(page.find(mark), mark.size(), data);

  const std::filesystem::path path =
      std::filesystem::path(s.folder) / concat_text(program_invocation_short_name, "-", getpid(), ".html");
  const std::filesystem::path unfinished = path.string() + ".part";
  std::error_code error;
  std::filesystem::create_directories(s.folder, error);
  std::ofstream out(unfinished, std::ios::binary);
  out << page;
  out.close();
  if (out) std::filesystem::rename(unfinished, path, error);
  if (!out || error) {
    enabled = false;
    told_of_storage = nullptr;
    std::filesystem::remove(unfinished, error);
    logging::warn_once("WEFT_TRACE: the page of this run can't be written to " + path.string());
  }
  s.written = Clock::now();
}

bool is_child() { return process_generation() != 0; }

void write_last() {
  if (!is_on() || is_child()) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  write(s, true);
}

// The variable is read when the library is loaded, before any memory is asked for.
const bool read = [] {
  const char* const folder = std::getenv("WEFT_TRACE");
  if (!folder || !*folder) return false;
  state().folder = folder;
  enabled = true;
  told_of_storage = note_storage;
  std::atexit(write_last);
  return true;
}();

}  // namespace

void add(Compilation compilation) {
  Made made{shown(compilation), {}, 0, 0, {}};
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const Clock::time_point now = Clock::now();
  made.shown["begin"] = seconds_between(s.begin, compilation.begin);
  made.shown["seconds"] = seconds_between(compilation.begin, now);
  s.places[compilation.made] = s.made.size();
  s.made.push_back(std::move(made));
  if (!is_child() && seconds_between(s.written, now) > 1) write(s, false);
}

Call::Call(const Specialization& specialization) : specialization_(specialization), begin_(Clock::now()) {
  State& s = state();
  bool watched = false;
  {
    const std::lock_guard lock(s.mutex);
    const auto place = s.places.find(&specialization);
    watched = place != s.places.end() && s.made[place->second].watched.size() < most_watched;
  }
  if (!watched || runtime::current_watch) return;
  steps_ = std::make_unique<StepTimes>();
  watching_.emplace(steps_.get());
}

Call::~Call() {
  watching_.reset();
  try {
    note(Clock::now());
  } catch (...) {  // no memory: the page has a call less
  }
}

void Call::note(Clock::time_point end) const {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto place = s.places.find(&specialization_);
  if (place == s.places.end()) return;
  Made& made = s.made[place->second];
  ++made.call_count;
  made.call_seconds += seconds_between(begin_, end);
  if (s.drawn < most_calls_drawn) {
    ++s.drawn;
    made.calls.emplace_back(seconds_between(s.begin, begin_), seconds_between(begin_, end));
  } else {
    ++s.left_out;
  }
  if (!steps_ || steps_->calls.empty()) return;
  std::vector<double> seconds;
  for (const StepTimes::Run& run : steps_->calls.front().runs)
    if (steps_->steps[run.step].outer < 0) seconds.push_back(run.end - run.begin);
  made.watched.push_back(std::move(seconds));
}

}  // namespace weft::detail::run_page
