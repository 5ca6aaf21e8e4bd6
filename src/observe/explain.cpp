#include "weft/explain.hpp"

#include <algorithm>
#include <cstdio>
#include <ostream>

#include "base/device_target.hpp"
#include "base/fail.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/plan_memory.hpp"
#include "trace/kernel_job.hpp"
#include "trace/level_call.hpp"
#include "trace/select.hpp"

namespace weft {

constexpr std::size_t most_owners = 12;

static Explanation::Memory planned_memory(const runtime::Plan& plan, std::span<const std::int64_t> symbols) {
  const runtime::PlanMemory planned = runtime::memory_of(plan, symbols);
  Explanation::Memory memory{planned.taken(),
                             planned.temporaries,
                             planned.results,
                             planned.workspace,
                             planned.arguments,
                             planned.constants,
                             planned.offloaded,
                             planned.live,
                             {},
                             planned.peak,
                             {}};
  memory.owners = runtime::owners_at_peak(planned, most_owners);
  for (const runtime::Launch& launch : plan.launches) memory.steps.push_back(launch.name);
  return memory;
}

namespace detail {

void Call::explain(Explanation& out) {
  const Branch* const selected = specialization_->root.select(specialization_->guards, scratch_->words);
  const Segment& s = selected ? *selected->segment : specialization_->first();
  if (s.job) s.job->make();
  std::lock_guard lock(function_->mutex);
  const CallContext call{*function_, signature_, body_, context_, loc_, *scratch_, Stance::compile};
  out.guards = guard_texts(specialization_->guards, call.layout());
  out.decisions = decision_texts(
      *specialization_, [&](std::span<const Branch* const> way) { return select_text(call, *specialization_, way); });
  out.fallback = s.fallback();
  if (s.registered) out.fallback = "CompileOptions::backend is \"" + s.registered->name() + "\"";
  if (out.fallback.empty() && s.backend == Backend::eager) out.fallback = "CompileOptions::backend is Backend::eager";
  out.recompiles = function_->recompile_reasons;
  out.specializations = function_->compiled;
  if (const Snapshot* const all = function_->current.load())
    for (const auto& each : all->list) {
      if (!each->level) continue;
      std::vector<std::string> lines;
      each->level->add_texts("  ", lines);
      if (lines.empty()) continue;
      out.derivatives.push_back(concat_text("specialization ", each->number));
      out.derivatives.insert(out.derivatives.end(), lines.begin(), lines.end());
    }
  out.trace_milliseconds = specialization_->trace_milliseconds;
  out.autograd_milliseconds = specialization_->autograd_milliseconds;
  const Executable* const executable = s.executable();
  if (!executable) {
    out.graph = to_text(s.traced.graph);
    return;
  }
  Texts texts = texts_of(*executable);
  out.graph = std::move(texts.traced);
  out.optimized = std::move(texts.optimized);
  out.recomputed = std::move(texts.recomputed);
  out.schedule = std::move(texts.schedule);
  out.regions = std::move(texts.regions);
  for (const StageReport& stage : executable->stages)
    out.passes.push_back({stage.name, stage.milliseconds, stage.size});
  out.cache = executable->cache;
  out.source_path = executable->plan.source_path;
  out.arena_bytes = executable->arena_bytes;
  std::vector<std::int64_t> symbols;
  for (std::size_t i = 0; i < specialization_->guards.symbols.size(); ++i)
    symbols.push_back(specialization_->guards.symbol_value(i, scratch_->words));
  // Else sizes depend on values, or the steps are for a device that is not there.
  if ((executable->plan.prepared || executable->plan.parts) &&
      symbols.size() == static_cast<std::size_t>(executable->plan.symbol_count))
    out.memory = planned_memory(executable->plan, symbols);
  for (const KernelReport& kernel : texts.kernels)
    out.kernels.push_back({kernel.name, kernel.bytes, kernel.operations, kernel.loop_text, kernel.source});
}

static bool has_device() try { return runtime::cuda::device_count() > 0; } catch (const Error&) {
  return false;
}

void refuse_without_device(const Function* function, const Error& error) {
  if (std::string_view(error.what()).starts_with("[cuda] ") && !has_device())
    fail("explain", function->loc, "there is no GPU here (", std::string(error.what()).substr(7),
         "): explain_for(\"sm_90a\", f, ...) explains without one");
}

FunctionHandle function_for_target(const Function* like, const char* name) {
  const DeviceTarget* const target = device_target(name);
  if (!target) fail("explain_for", like->loc, "there is no target \"", name, "\": there are ", device_target_names());
  FunctionHandle made(make_function(like->options, like->loc));
  made.get()->target = target;
  return made;
}

std::size_t specialization_count(const Function* function) {
  std::lock_guard lock(const_cast<Function*>(function)->mutex);
  return function->compiled;
}
std::string last_recompile_reason(const Function* function) {
  std::lock_guard lock(const_cast<Function*>(function)->mutex);
  return function->recompile_reasons.empty() ? "" : function->recompile_reasons.back();
}

}  // namespace detail

// Where the time of the first call goes: a line a stage, those that ran twice together.
static std::string times_text(const Explanation& e) {
  if (e.passes.empty()) return {};
  std::vector<std::pair<std::string, double>> stages{{"trace", e.trace_milliseconds - e.autograd_milliseconds},
                                                     {"autograd", e.autograd_milliseconds}};
  double all = e.trace_milliseconds;
  for (const Explanation::Pass& pass : e.passes) {
    all += pass.milliseconds;
    const auto found = std::ranges::find(stages, pass.name, &std::pair<std::string, double>::first);
    if (found == stages.end())
      stages.emplace_back(pass.name, pass.milliseconds);
    else
      found->second += pass.milliseconds;
  }
  std::string text;
  const auto line = [&](const std::string& name, double milliseconds) {
    char number[32];
    std::snprintf(number, sizeof number, "%10.3f ms", milliseconds);
    text += concat_text(number, "  ", name, "\n");
  };
  for (const auto& [name, milliseconds] : stages) line(name, milliseconds);
  line("in all", all);
  return text;
}

// What a call takes, a bar for each step, or for each few where there are many, and who holds the memory at the peak.
static std::string memory_text(const Explanation::Memory& memory) {
  using runtime::bytes_text;
  if (memory.live.empty()) return {};
  constexpr std::size_t most_lines = 48, width = 40;
  std::string text = concat_text("a call takes ", bytes_text(memory.taken), " beside ", bytes_text(memory.arguments),
                                 " of arguments: temporaries ", bytes_text(memory.temporaries), ", results ",
                                 bytes_text(memory.results), ", workspace ", bytes_text(memory.workspace));
  if (memory.constants > 0) text += ", and keeps constants of " + bytes_text(memory.constants);
  if (memory.offloaded > 0) text += concat_text("; ", bytes_text(memory.offloaded), " wait in the host's memory");
  const std::size_t steps = memory.live.size(), a_line = (steps + most_lines - 1) / most_lines;
  const std::int64_t most = std::max<std::int64_t>(memory.live[memory.peak], 1);
  text += concat_text("\nlive at step ", memory.peak, " of ", steps,
                      ", the most: ", bytes_text(memory.live[memory.peak]), "\n");
  for (std::size_t first = 0; first < steps; first += a_line) {
    const std::size_t end = std::min(first + a_line, steps);
    const auto largest = std::max_element(memory.live.begin() + static_cast<std::ptrdiff_t>(first),
                                          memory.live.begin() + static_cast<std::ptrdiff_t>(end));
    const auto step = static_cast<std::size_t>(largest - memory.live.begin());
    const auto length = static_cast<std::size_t>(*largest * static_cast<std::int64_t>(width) / most);
    char line[64];
    std::snprintf(line, sizeof line, "%6zu %12s ", step, bytes_text(*largest).c_str());
    text += concat_text(line, std::string(length, '#'), std::string(width - length, ' '),
                        step == memory.peak ? " > " : "   ", memory.steps[step], "\n");
  }
  text += "in memory then:\n";
  for (const std::string& owner : memory.owners) text += "  " + owner + "\n";
  return text;
}

std::string to_string(const Explanation& e) {
  std::string text;
  auto section = [&](const char* title, const std::string& body) {
    if (body.empty()) return;
    text += concat_text("---- ", title, " ----\n", body, body.ends_with('\n') ? "" : "\n");
  };
  auto lines = [](const std::vector<std::string>& list) {
    std::string joined;
    for (const std::string& line : list) joined += line + "\n";
    return joined;
  };
  section("guards", lines(e.guards));
  section("graph, as traced", e.graph);
  section("graph, optimized", e.optimized);
  section("schedule", e.schedule);
  section("regions", lines(e.regions));
  std::string kernels;
  for (const Explanation::Kernel& kernel : e.kernels)
    kernels += concat_text(kernel.name, ": ", kernel.bytes, " bytes, ", kernel.operations, " operations\n");
  section("kernels", kernels);
  section("memory", memory_text(e.memory));
  section("computed again", lines(e.recomputed));
  section("cache", lines(e.cache));
  section("source", e.source_path);
  section("compile time", times_text(e));
  section("decisions", lines(e.decisions));
  section("derivatives", lines(e.derivatives));
  section("recompiled because", lines(e.recompiles));
  section("runs eagerly because", e.fallback);
  return text;
}
std::ostream& operator<<(std::ostream& out, const Explanation& explanation) { return out << to_string(explanation); }

}  // namespace weft
