#include "trace/observer.hpp"

#include "observe/page_file.hpp"
#include "observe/step_times.hpp"

namespace weft::detail::observer {
namespace {

using Json = nlohmann::json;

constexpr std::size_t most_drawn = 4000, most_watched = 3;  // traces and calls of a run; calls of a specialization

// The mutex is held.
void draw(RunLog& s, Drawn& list, Clock::time_point begin, Clock::time_point end) {
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
  const Segment& first = made.first();
  const CallContext& call = compilation.call;
  Json all{{"function", title(call.function)},
           {"number", made.number},
           {"beyond_limit", compilation.beyond_limit},
           {"reason", compilation.reason},
           {"guards", compilation.beyond_limit ? std::vector<std::string>() : guard_texts(made.guards, call.layout())},
           {"fallback", compilation.beyond_limit ? beyond_limit_text : first.fallback()},
           {"steps", Json::array()},
           {"kernels", Json::array()},
           {"passes", Json::array()},
           {"temporaries", Json::array()},
           {"arena_bytes", 0},
           {"traced", ""},
           {"optimized", ""},
           {"schedule", ""}};
  const Executable* const executable = first.executable();
  if (!executable) {
    all["traced"] = to_text(first.traced.graph);
    return all;
  }
  const Texts texts = texts_of(*executable);
  all["traced"] = texts.traced;
  all["optimized"] = texts.optimized;
  all["schedule"] = texts.schedule;
  all["arena_bytes"] = executable->arena_bytes;
  for (const Texts::Step& step : texts.steps) all["steps"].push_back(work_json(step.name, step.work, step.computes));
  for (const KernelReport& kernel : texts.kernels)
    all["kernels"].push_back(
        {{"name", kernel.name}, {"bytes", kernel.bytes}, {"operations", kernel.operations}, {"source", kernel.source}});
  for (const StageReport& stage : executable->stages)
    all["passes"].push_back({{"name", stage.name}, {"milliseconds", stage.milliseconds}, {"size", stage.size}});
  for (const Texts::Temporary& one : texts.temporaries)
    all["temporaries"].push_back(
        {{"type", one.type}, {"offset", one.offset}, {"bytes", one.bytes}, {"first", one.first}, {"last", one.last}});
  return all;
}

}  // namespace

void add(const Compilation& compilation) noexcept {
  guarded([&] {
    RunLog& s = run_log();
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
    if (!is_child() && seconds_between(s.written, now) > 1) write_page(s, false);
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
  if (runtime::current_watch || !specialization.first().executable()) return;
  guarded([&] {
    RunLog& s = run_log();
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
  RunLog& s = run_log();
  const std::lock_guard lock(s.mutex);
  const auto place = s.places.find(specialization_.id);
  if (place == s.places.end()) return;
  Made& made = s.made[place->second];
  ++made.call_count;
  made.call_seconds += seconds_between(begin_, end);
  draw(s, made.calls, begin_, end);
  if (!watched_) return;
  std::vector<double> seconds = watched_->times().first_call_of(specialization_.first().executable()->plan);
  if (!seconds.empty()) made.watched.push_back(std::move(seconds));
}

}  // namespace weft::detail::observer
