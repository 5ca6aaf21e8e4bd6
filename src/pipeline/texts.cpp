#include "pipeline/texts.hpp"

#include <algorithm>
#include <sstream>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/registered_code.hpp"
#include "passes/rematerialize.hpp"
#include "providers/provider.hpp"
#include "runtime/stored_step.hpp"
#include "schedule/common_sizes.hpp"
#include "schedule/repeats.hpp"

namespace weft {

// A payload, or a step that was read from disk.
template <class Step>
static StepWork work_of_step(const Step& step, std::span<const std::int64_t> symbols) {
  StepWork work;
  work.generated = step.generated();
  work.runs_others = step.runs_others();
  work.by = step.by();
  const auto cost = step.cost();
  work.bytes = dims::evaluate(cost.bytes, symbols);
  work.operations = dims::evaluate(cost.operations, symbols);
  return work;
}
StepWork work_of(const runtime::Launch& launch, std::span<const std::int64_t> symbols) {
  if (const auto* stored = dynamic_cast<const runtime::StoredStep*>(launch.step.get()))
    return work_of_step(*stored, symbols);
  return work_of_step(dynamic_cast<const Payload&>(*launch.step), symbols);
}

namespace {
Graph readable(const Graph& graph) {
  const auto is_data = [](const Tensor& value) { return value.node()->op == Op::data; };
  return std::ranges::any_of(graph.nodes, is_data) ? without_data(graph) : graph;
}
}  // namespace

TextSources::TextSources(const Graph& traced) : traced_(readable(traced)) {}
TextSources::TextSources(const Graph& traced, std::function<void(TextSources&)> later) : TextSources(traced) {
  later_ = std::move(later);
}
void TextSources::add(const Compilation& compilation, Device device) {
  Part& part = parts_.emplace_back(Part{readable(compilation.graph), compilation.schedule, device});
  for (ScheduleBuffer& buffer : part.schedule.buffers) buffer.constant = {};
  hints_.clear();
  for (const DimSymbol& symbol : compilation.graph.symbols) hints_.push_back(symbol.hint);
}

Texts TextSources::texts() {
  const std::lock_guard lock(mutex_);  // printing numbers the nodes, which graphs share
  if (later_) later_(*this);
  later_ = nullptr;
  Texts texts;
  texts.traced = to_text(traced_);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto& [optimized, schedule, device] = parts_[p];
    Schedule* const own = &schedule;
    share_functions(std::span(&own, 1), device, providers::all());
    const std::string title = parts_.size() > 1 ? concat_text("part ", p, " on ", to_string(device), "\n") : "";
    texts.optimized += title + to_text(optimized);
    texts.schedule += title + to_text(schedule) + decisions_text(schedule);
    std::ranges::move(recomputed_texts(optimized), std::back_inserter(texts.recomputed));
    std::ranges::move(repeat_texts(schedule), std::back_inserter(texts.regions));
    providers::Sources sources(device);
    std::vector<runtime::EntryPoint> entries;
    for (const Step& step : schedule.steps) entries.push_back(step.payload->emit(sources));
    sources.generate_texts();
    for (std::size_t i = 0; i < schedule.steps.size(); ++i)
      report(*schedule.steps[i].payload, entries[i], 1, sources, texts.kernels);
    add_temporaries(schedule, texts.steps.size(), texts.temporaries);
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      const std::string& name = entries[i].name.empty() ? step.name : entries[i].name;
      texts.steps.push_back({name, work_of_step(*step.payload, hints_), step.operations});
    }
  }
  return texts;
}

// Steps are counted from the first part on.
void TextSources::add_temporaries(const Schedule& schedule, std::size_t first,
                                  std::vector<Texts::Temporary>& all) const {
  struct Life {
    std::size_t first = 0, last = 0;
    bool used = false;
  };
  std::vector<Life> lives(schedule.buffers.size());
  for (std::size_t s = 0; s < schedule.steps.size(); ++s)
    for (const int buffer : schedule.steps[s].buffers) {
      Life& life = lives[static_cast<std::size_t>(buffer)];
      life = {life.used ? life.first : s, s, true};
    }
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const ScheduleBuffer& buffer = schedule.buffers[b];
    if (buffer.kind != ScheduleBuffer::Kind::temporary || buffer.in_result >= 0 || !lives[b].used) continue;
    all.push_back({concat_text(info(buffer.dtype).name, " x ", dims::to_string(buffer.elements)),
                   dims::evaluate(buffer.offset, hints_),
                   dims::evaluate(storage_bytes(info(buffer.dtype), buffer.elements), hints_), first + lives[b].first,
                   first + lives[b].last});
  }
}

// Kernels of a loop's bodies count as often as these run.
void TextSources::report(const Payload& payload, const runtime::EntryPoint& entry, Dim times,
                         const providers::Sources& sources, std::vector<KernelReport>& kernels) const {
  std::size_t next = 0;
  for (const Payload::Inner& inner : payload.inner())
    for (const Step& step : inner.schedule->steps)
      report(*step.payload, entry.inner[next++], times * inner.times, sources, kernels);
  if (!payload.kernel()) return;
  const loop::Cost cost = payload.cost();
  kernels.push_back({entry.name, payload.text(), sources.texts().at(entry.name),
                     dims::evaluate(cost.bytes * times, hints_), dims::evaluate(cost.operations * times, hints_),
                     payload.kernel()->comments});
}

Texts texts_of(const Executable& executable) {
  WEFT_CHECK(executable.kept, "texts of an executable that did not keep what they are made from");
  return executable.kept->texts();
}

void show_fusion(const RegisteredPasses& registered, const Schedule& schedule) {
  if (registered.observers.empty()) return;
  FusedSteps fused{{}, to_text(schedule) + decisions_text(schedule)};
  for (const Step& step : schedule.steps) fused.steps.push_back({step.name, step.operations});
  for (const FusionObserver& each : registered.observers)
    naming_registered("observer of fusion", each.name, [&] { each.observe(fused); });
}

void log_texts(const Executable& executable) {
  const bool fusion = logging::enabled(logging::Channel::fusion), kernels = logging::enabled(logging::Channel::kernels);
  if (!fusion && !kernels) return;
  const Texts texts = texts_of(executable);
  std::istringstream schedule(fusion ? texts.schedule : "");
  for (std::string line; std::getline(schedule, line);) logging::write(logging::Channel::fusion, line);
  if (!kernels) return;
  for (const KernelReport& kernel : texts.kernels) {
    std::string text = concat_text(kernel.name, ": ", kernel.bytes, " bytes, ", kernel.operations, " operations");
    if (!executable.plan.source_path.empty()) text += ", source " + executable.plan.source_path;
    for (const std::string& fused : kernel.comments) text += "; " + fused;
    logging::write(logging::Channel::kernels, text);
  }
}
void log_stages(const Executable& executable) {
  if (!logging::enabled(logging::Channel::passes)) return;
  for (const StageReport& stage : executable.stages) {
    std::string text = concat_text(stage.name, ": ", stage.milliseconds, " ms, ", stage.size);
    for (const auto& [row, times] : stage.rewrites) text += concat_text("; ", row, ": ", times);
    logging::write(logging::Channel::passes, text);
  }
}

}  // namespace weft
