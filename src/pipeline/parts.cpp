#include "pipeline/parts.hpp"

#include <algorithm>

#include "base/device_target.hpp"
#include "base/fail.hpp"
#include "runtime/plan_parts.hpp"

namespace weft {

JoinedParts::JoinedParts(const Compilation& whole)
    : cut_(std::make_shared<CutGraph>(cut_by_place(whole.graph, whole.updates))),
      device_(devices_of(whole.graph).front()),
      title_(whole.title),
      arguments_(static_cast<int>(whole.graph.inputs.size())),
      results_(static_cast<int>(whole.graph.outputs.size())),
      symbols_(whole.graph.symbols) {
  if (current_device_target())
    fail("compile", {}, "values on several devices: code for a device that is not here is made for one");
}

std::vector<JoinedParts::Part> JoinedParts::compilations(const Compilation& whole) {
  std::vector<Part> all;
  for (const CutPart& part : cut_->parts) {
    executables_.push_back(part.graph ? std::make_shared<Executable>() : nullptr);
    if (!part.graph) continue;
    all.push_back({part.device,
                   {.graph = *part.graph,
                    .schedule = {},
                    .entries = {},
                    .executable = executables_.back(),
                    .updates = part.updates,
                    .title = title_,
                    .choices = whole.choices,
                    .reduces_overhead = whole.reduces_overhead}});
  }
  return all;
}

// Whether no later part reads the argument or can fail. Then the part may write the result over the argument.
bool JoinedParts::may_write_in_place(std::size_t part, int argument) const {
  return std::all_of(cut_->parts.begin() + static_cast<std::ptrdiff_t>(part) + 1, cut_->parts.end(),
                     [=](const CutPart& later) {
                       return std::ranges::find(later.inputs, argument) == later.inputs.end() &&
                              (!later.graph || later.graph->effects.empty());
                     });
}

void JoinedParts::join(Executable& whole) const {
  std::vector<runtime::PartValue> values;
  for (const CutValue& value : cut_->values) {
    using From = CutValue::Kind;
    using To = runtime::PartValue::Kind;
    const To kind = value.kind == From::input ? To::argument : value.kind == From::output ? To::result : To::temporary;
    const Type& type = type_of(value.value);
    values.push_back(
        {kind, value.index, type.dtype, type.shape.element_count(), type.device, operation_text(*value.value.node())});
  }
  runtime::Plan& plan = whole.plan;
  std::vector<runtime::Part> parts;
  for (std::size_t p = 0; p < cut_->parts.size(); ++p) {
    const CutPart& from = cut_->parts[p];
    runtime::Part& part = parts.emplace_back(runtime::Part{nullptr, from.inputs, from.outputs});
    if (!executables_[p]) continue;
    const Executable& own = *executables_[p];
    part.plan = std::shared_ptr<const runtime::Plan>(executables_[p], &own.plan);
    for (const runtime::Plan::Donation& donation : own.plan.donations) {
      const int argument = from.inputs[static_cast<std::size_t>(donation.argument)];
      const CutValue& taken = cut_->values[static_cast<std::size_t>(argument)];
      const CutValue& result =
          cut_->values[static_cast<std::size_t>(from.outputs[static_cast<std::size_t>(donation.result)])];
      if (taken.kind == CutValue::Kind::input && result.kind == CutValue::Kind::output &&
          may_write_in_place(p, argument))
        plan.donations.push_back({taken.index, result.index});
    }
    whole.arena_bytes += own.arena_bytes;
    whole.stages.insert(whole.stages.end(), own.stages.begin(), own.stages.end());
    whole.cache.insert(whole.cache.end(), own.cache.begin(), own.cache.end());
  }
  plan.device = device_;
  plan.argument_count = arguments_;
  plan.result_count = results_;
  plan.symbol_count = static_cast<int>(symbols_.size());
  plan.title = title_;
  plan.parts = std::make_shared<runtime::PlanParts>(std::move(values), std::move(parts), symbols_.size());
}

}  // namespace weft
