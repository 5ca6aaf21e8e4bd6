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
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/storage.hpp"
#include "trace/median.hpp"
#include "weft/version.hpp"

namespace weft::codegen {
extern const char embedded_run_page[];
}

namespace weft::detail::run_page {
namespace {

using Clock = StepTimes::Clock;
using Json = nlohmann::json;

constexpr std::size_t most_drawn = 4000, most_moments = 4096;
constexpr std::size_t most_watched = 3;  // calls of a specialization

// Begin and length of each that is drawn.
using Drawn = std::vector<std::pair<double, double>>;

// A specialization, or all those of a function that are beyond the limit.
struct Made {
  Json shown;  // what does not change any more
  Drawn traces = {}, calls = {};
  std::size_t trace_count = 0, call_count = 0;
  double trace_seconds = 0, call_seconds = 0;
  std::vector<std::vector<double>> watched = {};  // by call: seconds of each step
};

struct State {
  ProcessMutex& mutex = process_mutex(LockOrder::page);
  std::string folder;
  Clock::time_point begin = Clock::now();
  std::time_t started = std::time(nullptr);
  Clock::time_point written{};
  std::vector<Made> made;
  std::unordered_map<std::uint64_t, std::size_t> places;  // by Specialization::id, into made
  std::size_t drawn = 0, left_out = 0;
  std::vector<std::pair<double, std::int64_t>> memory;  // bytes in use from each moment on
  std::int64_t in_use = 0;
};
State& state() {
  static constinit Lazy<State> instance;
  return instance.get();
}

// Whoever looks in changes nothing of what the program does: what throws here ends the page, for the whole process.
void give_up(const char* why) noexcept {
  enabled = false;
  tell_of_storage(nullptr);
  try {
    logging::warn_once(concat_text("WEFT_TRACE: the page of this run is given up: ", why));
  } catch (...) {  // there is no memory to say so
  }
}
// All that others call passes here.
template <class F>
void guarded(F f) noexcept {
  if (!is_on()) return;
  try {
    f();
  } catch (const std::exception& error) {
    give_up(error.what());
  } catch (...) {
    give_up("an exception of an unknown type");
  }
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
// The mutex is held.
void note_storage(State& s, std::int64_t bytes) {
  s.in_use += bytes;
  s.memory.emplace_back(seconds_between(s.begin, Clock::now()), s.in_use);
  if (s.memory.size() > most_moments) halve(s.memory);
}
void note_storage(std::int64_t bytes) noexcept {
  guarded([&] {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    note_storage(s, bytes);
  });
}

// The mutex is held.
void draw(State& s, Drawn& list, Clock::time_point begin, Clock::time_point end) {
  if (s.drawn == most_drawn) {
    ++s.left_out;
    return;
  }
  ++s.drawn;
  list.emplace_back(seconds_between(s.begin, begin), seconds_between(begin, end));
}

Json work_json(const std::string& name, const StepWork& work, const std::vector<std::string>& computes) {
  return {
      {"name", name}, {"by", work.by}, {"bytes", work.bytes}, {"operations", work.operations}, {"computes", computes}};
}

constexpr const char* beyond_limit_text =
    "it was compiled again as often as its recompile_limit allows; for other arguments each call traces it";

Json shown(const Compilation& compilation) {
  const Specialization& made = compilation.made;
  const CallContext& call = compilation.call;
  Json all{{"function", title(call.function)},
           {"number", made.number},
           {"beyond_limit", compilation.beyond_limit},
           {"reason", compilation.reason},
           {"guards", compilation.beyond_limit ? std::vector<std::string>()
                                               : guard_texts(made.guards, call.signature, call.scratch.arguments)},
           {"fallback", compilation.beyond_limit ? beyond_limit_text : made.fallback},
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
  all["trace_count"] = made.trace_count;
  all["seconds"] = made.trace_seconds;
  all["traces"] = made.traces;
  all["call_count"] = made.call_count;
  all["call_seconds"] = made.call_seconds;
  all["calls"] = made.calls;
  all["watched"] = made.watched.size();
  for (std::size_t step = 0; step < all["steps"].size(); ++step) {
    std::vector<double> seconds;
    for (const std::vector<double>& call : made.watched)
      if (step < call.size()) seconds.push_back(call[step]);
    if (!seconds.empty()) all["steps"][step]["seconds"] = median(std::move(seconds));
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
           {"left_out", s.left_out},
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
    std::filesystem::remove(unfinished, error);
    throw std::runtime_error(path.string() + " can't be written");
  }
  s.written = Clock::now();
}

bool is_child() { return process_generation() != 0; }

void write_last() noexcept {
  guarded([] {
    if (is_child()) return;
    State& s = state();
    const std::lock_guard lock(s.mutex);
    write(s, true);
  });
}

// The variable is read when the library is loaded. The folder is the one that its name means then.
const bool read = [] {
  const char* const folder = std::getenv("WEFT_TRACE");
  if (!folder || !*folder) return false;
  enabled = true;
  guarded([&] {
    State& s = state();
    s.folder = std::filesystem::absolute(folder);
    const std::lock_guard lock(s.mutex);
    note_storage(s, tell_of_storage(note_storage));
    std::atexit(write_last);
  });
  return true;
}();

}  // namespace

void add(const Compilation& compilation) noexcept {
  guarded([&] {
    State& s = state();
    std::unique_lock lock(s.mutex);
    auto place = s.places.find(compilation.made.id);
    if (place == s.places.end()) {  // else it is beyond the limit, and not the first
      lock.unlock();
      Made made{shown(compilation)};
      lock.lock();
      made.shown["begin"] = seconds_between(s.begin, compilation.begin);
      s.made.push_back(std::move(made));
      place = s.places.emplace(compilation.made.id, s.made.size() - 1).first;
    }
    const Clock::time_point now = Clock::now();
    Made& made = s.made[place->second];
    ++made.trace_count;
    made.trace_seconds += seconds_between(compilation.begin, now);
    draw(s, made.traces, compilation.begin, now);
    if (!is_child() && seconds_between(s.written, now) > 1) write(s, false);
  });
}

// The steps of a call.
class Call::Watched final : public runtime::Watch {
 public:
  void begin_call(const runtime::Plan& plan, std::span<const std::int64_t> symbols, bool waits) noexcept override {
    guarded([&] { times_.begin_call(plan, symbols, waits); });
  }
  void begin_step(const runtime::Launch& launch, Queue* queue) noexcept override {
    guarded([&] { times_.begin_step(launch, queue); });
  }
  void end_step(Queue* queue) noexcept override {
    guarded([&] { times_.end_step(queue); });
  }
  void end_call() noexcept override { times_.end_call(); }
  const StepTimes& times() const { return times_; }

 private:
  StepTimes times_;
};

Call::Call(const Specialization& specialization) noexcept : specialization_(specialization), begin_(Clock::now()) {
  if (runtime::current_watch || !specialization.executable) return;
  guarded([&] {
    State& s = state();
    {
      const std::lock_guard lock(s.mutex);
      const auto place = s.places.find(specialization.id);
      if (place == s.places.end() || s.made[place->second].watched.size() >= most_watched) return;
    }
    watched_ = std::make_unique<Watched>();
    watching_.emplace(watched_.get());
  });
}

Call::~Call() {
  watching_.reset();
  guarded([this] { note(Clock::now()); });
}

void Call::note(Clock::time_point end) const {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto place = s.places.find(specialization_.id);
  if (place == s.places.end()) return;
  Made& made = s.made[place->second];
  ++made.call_count;
  made.call_seconds += seconds_between(begin_, end);
  draw(s, made.calls, begin_, end);
  if (!watched_) return;
  std::vector<double> seconds = watched_->times().first_call_of(specialization_.executable->plan);
  if (!seconds.empty()) made.watched.push_back(std::move(seconds));
}

}  // namespace weft::detail::run_page
