#include "schedule/launches.hpp"

#include <cstring>

#include "base/fail.hpp"

namespace weft {
namespace {

std::vector<std::byte> constant_bytes(const ScheduleBuffer& buffer) {
  if (!buffer.constant.defined()) return {};
  const Node& node = *buffer.constant.node();
  std::size_t bytes = storage_bytes(node.type.dtype, node.type.shape.element_count().constant());
  WEFT_CHECK(node.storage && !node.layout, "a constant of the graph is contiguous memory");
  const auto* source = static_cast<const std::byte*>(node.storage->data);
  if (buffer.kind == ScheduleBuffer::Kind::constant) return std::vector(source, source + bytes);
  const std::int64_t element = storage_bytes(info(node.type.dtype), std::int64_t{1}),
                     count = buffer.elements.constant();
  std::vector<std::byte> packed(static_cast<std::size_t>(count * element));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t left = i, from = buffer.packed_offset;
    for (std::size_t axis = buffer.packed_sizes.size(); axis-- > 0; left /= buffer.packed_sizes[axis])
      from += left % buffer.packed_sizes[axis] * buffer.packed_strides[axis];
    std::memcpy(packed.data() + i * element, source + from * element, static_cast<std::size_t>(element));
  }
  return packed;
}

runtime::PlanBuffer plan_buffer(const ScheduleBuffer& buffer, runtime::Plan& plan) {
  runtime::PlanBuffer result{};
  switch (buffer.kind) {
    case ScheduleBuffer::Kind::argument: result.kind = runtime::PlanBuffer::Kind::argument; break;
    case ScheduleBuffer::Kind::result: result.kind = runtime::PlanBuffer::Kind::result; break;
    case ScheduleBuffer::Kind::offloaded:
    case ScheduleBuffer::Kind::temporary: result.kind = runtime::PlanBuffer::Kind::temporary; break;
    case ScheduleBuffer::Kind::error: result.kind = runtime::PlanBuffer::Kind::error; break;
    case ScheduleBuffer::Kind::constant:
    case ScheduleBuffer::Kind::packed: result.kind = runtime::PlanBuffer::Kind::constant; break;
  }
  result.index = buffer.index;
  result.dtype = buffer.dtype;
  result.elements = buffer.elements;
  result.offset = buffer.offset;
  result.in_result = buffer.in_result;
  result.what = buffer.what;
  result.host = buffer.kind == ScheduleBuffer::Kind::offloaded;
  if (result.kind == runtime::PlanBuffer::Kind::constant) {
    result.index = static_cast<int>(plan.constants.size());
    plan.constants.push_back(constant_bytes(buffer));
  }
  return result;
}

// The first floating dtype among its buffers.
DType computed_in(const Schedule& schedule, const Step& step) {
  for (const int buffer : step.buffers)
    if (const DType dtype = schedule.buffers[static_cast<std::size_t>(buffer)].dtype; is_floating(dtype)) return dtype;
  return DType::f32;
}

}  // namespace

runtime::Plan make_plan(const Schedule& schedule, std::span<const runtime::EntryPoint> entries, Device device,
                        std::size_t arguments, std::size_t results, std::size_t symbols,
                        std::shared_ptr<const runtime::Functions> functions) {
  runtime::Plan plan;
  plan.device = device;
  for (const ScheduleBuffer& buffer : schedule.buffers) plan.buffers.push_back(plan_buffer(buffer, plan));
  plan.argument_count = static_cast<int>(arguments);
  plan.result_count = static_cast<int>(results);
  plan.arena_bytes = schedule.arena_bytes;
  for (const Schedule::Donation& donation : schedule.donations)
    plan.donations.push_back({donation.argument, donation.result});
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const std::string name = entries[i].name.empty() ? step.name : entries[i].name;
    plan.launches.push_back({name, step.buffers, entries[i], step.payload, step.payload->writes(step.buffers.size()),
                             step.operations, computed_in(schedule, step)});
  }
  plan.symbol_count = static_cast<int>(symbols);
  plan.functions = std::move(functions);
  return plan;
}

}  // namespace weft
