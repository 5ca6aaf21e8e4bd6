#include "pipeline/stages.hpp"

#include <iterator>

#include "base/device_target.hpp"
#include "base/fail.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "codegen/cpp.hpp"
#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/cuda/launch_limits.hpp"
#include "runtime/host/jit.hpp"
#include "runtime/plan_memory.hpp"
#include "runtime/workers.hpp"
#include "schedule/common_sizes.hpp"
#include "schedule/launches.hpp"
#include "schedule/offload.hpp"

namespace weft {
namespace {

// Of a device.
void make_units(Target& target) {
  std::vector<std::string> names, texts, dealt;
  for (const auto& [name, text] : target.sources.texts()) names.push_back(name), texts.push_back(text);
  const std::size_t count = codegen::cuda_unit_count(texts.size());
  for (const std::size_t i : codegen::order_for_units(texts, count)) {
    target.functions.push_back(std::move(names[i]));
    dealt.push_back(std::move(texts[i]));
  }
  target.units = codegen::cuda_units(dealt, count);
}

// Every device must be able to launch a function and those of its inner steps.
void check_launches(const runtime::EntryPoint& entry, const std::vector<std::string>& cubins) {
  for (const runtime::EntryPoint& inner : entry.inner) check_launches(inner, cubins);
  if (entry.name.empty()) return;
  runtime::cuda::LaunchNeeds needs{.threads = entry.threads, .dynamic_shared = entry.shared};
  for (const std::string& cubin : cubins)  // one of them has it
    needs.static_shared += runtime::cuda::static_shared_in(cubin, entry.name);
  const std::string why = runtime::cuda::beyond_limits(needs, {.shared = device_layout::shared_of_block});
  WEFT_CHECK(why.empty(), entry.name, ": ", why);
}

// Which generation a program is compiled for follows from its text, so that a suite, in which each form of a kernel is
// often, takes the time of one and has all. tests/codegen compiles each form for all of them.
const char* generation_for(const std::string& unit) {
  const Digest digest = Hasher().add(unit).digest();
  return device_generations[digest.low % std::size(device_generations)];
}

// With WEFT_NVRTC_CHECK set, what is compiled for the host must compile for a device too: the suite
// then is a test of the CUDA generator, without a GPU.
void check_device_code(const std::vector<Compilation>& graphs) {
  std::string why;
  if (!runtime::cuda::nvrtc_available(&why)) return logging::warn_once("WEFT_NVRTC_CHECK: " + why);
  providers::Sources sources(Device::cuda());
  std::vector<runtime::EntryPoint> entries;
  for (const Compilation& compilation : graphs)
    for (const Step& step : compilation.schedule.steps) entries.push_back(step.payload->emit(sources));
  std::vector<std::string> texts;
  for (const auto& [name, text] : sources.texts()) texts.push_back(text);
  try {
    constexpr std::size_t most_a_unit = 400;  // few programs take the least time in all; nobody waits for the first
    const std::vector<std::string> units = codegen::cuda_units(texts, (texts.size() + most_a_unit - 1) / most_a_unit);
    std::vector<std::string> cubins;
    for (const std::string& unit : units)
      cubins.push_back(
          runtime::cuda::compile_units(std::span(&unit, 1), generation_for(unit), runtime::cuda::Effort::check).at(0));
    for (const runtime::EntryPoint& entry : entries) check_launches(entry, cubins);
  } catch (const CompileError& error) {  // which would be no more than a warning
    throw_internal(Loc::current(), error.what());
  }
}

// Of several targets on one device. One alone is left to make_code.
void make_images(std::span<Target> targets) {
  if (targets.size() < 2 || current_device_target()) return;
  const Device device = targets[0].device;
  if (device.type == Device::Type::cpu) return;
  std::vector<std::string> units;
  for (const Target& target : targets)
    if (target.device == device) units.insert(units.end(), target.units.begin(), target.units.end());
  std::vector<bool> compiled;
  std::vector<std::string> images = runtime::cuda::compile_units(
      units, std::string(runtime::cuda::use(device).target->name), runtime::cuda::Effort::run, &compiled);
  std::size_t next = 0;
  for (Target& target : targets)
    if (target.device == device)
      for (std::size_t i = 0; i < target.units.size(); ++i, ++next) {
        target.images.push_back(std::move(images[next]));
        target.images_compiled = target.images_compiled || compiled[next];
      }
}

void make_code(Target& target) {
  if (target.on_host() && options().nvrtc_check) check_device_code(target.graphs);
  if (!target.on_host()) {
    if (const DeviceTarget* const made_for = current_device_target()) {
      runtime::cuda::CodeImages code{runtime::cuda::compile_units(target.units, std::string(made_for->name)),
                                     target.functions};
      target.compiled = {std::make_shared<runtime::cuda::KeptCode>(std::move(code)), {}, {}};
    } else {
      auto code = std::make_shared<runtime::cuda::Code>(target.units, target.functions, target.device,
                                                        std::move(target.images), target.images_compiled);
      target.compiled = {code, code->source_path(), code->origin()};
    }
  } else if (!target.units.empty()) {
    std::shared_ptr<Library> library =
        jit({std::move(target.units), target_instruction_set(), {}, target.code, target.optimization});
    target.compiled = {library, library->source_path(), library->origin()};
  }
}

// Of a plan that is made to be read only.
class NoFunctions final : public runtime::Functions {
 public:
  void* entry(const std::string&) const override { return const_cast<NoFunctions*>(this); }
};

void mark_host_buffers(runtime::Plan& plan, const Graph& graph) {
  if (plan.device.type == Device::Type::cpu) return;
  const auto on_host = [](const Tensor& value) { return type_of(value).device.type == Device::Type::cpu; };
  for (runtime::PlanBuffer& buffer : plan.buffers) {
    const auto index = static_cast<std::size_t>(buffer.index);
    if (buffer.kind == runtime::PlanBuffer::Kind::argument) buffer.host = on_host(graph.inputs[index]);
    if (buffer.kind == runtime::PlanBuffer::Kind::result) buffer.host = on_host(graph.outputs[index]);
  }
  std::erase_if(plan.donations, [&](const runtime::Plan::Donation& donation) {
    return on_host(graph.inputs[static_cast<std::size_t>(donation.argument)]) ||
           on_host(graph.outputs[static_cast<std::size_t>(donation.result)]);
  });
}

}  // namespace

std::size_t schedule(Compilation& compilation, Device device) {
  compilation.schedule =
      make_schedule(compilation.graph, device, providers::all(), compilation.choices, compilation.constant_inputs);
  return compilation.schedule.steps.size();
}

std::size_t memory(Compilation& compilation, Device device) {
  offload_values(compilation.schedule, compilation.graph, device);
  plan_memory(compilation.schedule, device, compilation.updates, device.type == Device::Type::cpu);
  if (device.type != Device::Type::cpu) read_early(compilation.schedule, compilation.constant_inputs);
  return compilation.schedule.buffers.size();
}

std::int64_t taken_bytes(Compilation&& compilation, Device device) {
  const Graph& graph = compilation.graph;
  Schedule& schedule = compilation.schedule;
  if (device.type != Device::Type::cpu) return dims::at_hints(schedule.arena_bytes, graph.symbols);
  // Nothing runs, and nobody reads what the plan says of itself.
  for (ScheduleBuffer& buffer : schedule.buffers) buffer.constant = {}, buffer.what.clear();
  std::vector<runtime::EntryPoint> entries;
  providers::Sources sources(device);
  for (Step& step : schedule.steps) {
    step.operations.clear();
    entries.push_back(step.payload->emit(sources));
  }
  const workers::SingleThread single;  // what is computed again must not follow from the number of threads
  runtime::Plan plan = make_plan(schedule, entries, device, graph.inputs.size(), graph.outputs.size(),
                                 graph.symbols.size(), std::make_shared<NoFunctions>());
  std::vector<std::int64_t> sizes;
  for (const DimSymbol& symbol : graph.symbols) sizes.push_back(symbol.hint);
  runtime::prepare(plan);
  return runtime::memory_of(plan, sizes).taken();
}

std::size_t generate(Target& target) {
  std::vector<Schedule*> schedules;
  for (Compilation& compilation : target.graphs) schedules.push_back(&compilation.schedule);
  share_functions(schedules, target.device, providers::all());
  for (Compilation& compilation : target.graphs)
    for (const Step& step : compilation.schedule.steps)
      compilation.entries.push_back(step.payload->emit(target.sources));
  if (target.on_host())
    target.units =
        codegen::cpp_units(target.sources.kernels(), unit_count(target.sources.kernels().size()), &target.code);
  else
    make_units(target);
  return target.units.size();
}

std::size_t compile(std::span<Target> targets) {
  make_images(targets);
  std::size_t kernels = 0;
  for (Target& target : targets) {
    make_code(target);
    kernels += target.sources.kernels().size();
  }
  return kernels;
}

std::size_t launches(Target& target) {
  std::size_t count = 0;
  for (Compilation& compilation : target.graphs) {
    const Graph& graph = compilation.graph;
    const Schedule& schedule = compilation.schedule;
    runtime::Plan& plan = compilation.executable->plan;
    plan = make_plan(schedule, compilation.entries, target.device, graph.inputs.size(), graph.outputs.size(),
                     graph.symbols.size(), target.compiled.functions);
    mark_host_buffers(plan, graph);
    plan.constant_arguments = compilation.constant_inputs;
    plan.reduces_overhead = compilation.reduces_overhead;
    plan.source_path = target.compiled.source_path;
    plan.title = compilation.title;
    if (!target.compiled.origin.empty()) compilation.executable->cache.push_back("kernels: " + target.compiled.origin);
    if (target.on_host() || !current_device_target()) runtime::prepare(plan);
    compilation.executable->arena_bytes = dims::at_hints(schedule.arena_bytes, graph.symbols);
    count += plan.launches.size();
  }
  return count;
}

}  // namespace weft
