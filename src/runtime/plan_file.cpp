#include "runtime/plan_file.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/member_count.hpp"
#include "runtime/contraction.hpp"
#include "runtime/convolution.hpp"
#include "runtime/loop.hpp"
#include "runtime/update_rows.hpp"
#include "runtime/update_slice.hpp"

namespace weft::runtime {

namespace {

// Written apart: a plan's launches, a launch's step. Made anew: given, constant_arguments, reduces_overhead, functions,
// source_path, prepared. A plan in parts is not written.
static_assert(member_count<Plan> == 17 && member_count<Launch> == 7 && member_count<Device> == 2,
              "a member was added: list it below, then count it here");
static_assert(lists_all<PlanBuffer> && lists_all<Plan::Donation> && lists_all<EntryPoint> && lists_all<LoopValue> &&
                  lists_all<LoopDescription> && lists_all<RowsUpdate> && lists_all<SliceUpdate> &&
                  lists_all<ConvolutionSizes> && lists_all<Contraction>,
              "a struct's fields() leave out a member");

template <class Self>
auto fields_of(Self& plan) {
  return std::tie(plan.device.type, plan.device.index, plan.buffers, plan.argument_count, plan.result_count,
                  plan.symbol_count, plan.arena_bytes, plan.constants, plan.donations, plan.title);
}
template <class Self>
auto fields_of_launch(Self& launch) {
  return std::tie(launch.name, launch.buffers, launch.entry, launch.writes, launch.operations, launch.dtype);
}

void require(bool condition) {
  if (!condition) throw Malformed();
}
bool is_in(std::int64_t index, std::int64_t count) { return index >= 0 && index < count; }
bool is_on_host(const Plan& plan) { return plan.device.type == Device::Type::cpu; }

constexpr std::string_view device_steps[] = {
#define WEFT_DEVICE_STEP(name) #name,
#include "runtime/device_steps.def"
#undef WEFT_DEVICE_STEP
};

void check(const Plan& plan) {
  const auto most = std::int64_t{1} << 24;
  for (const int count : {plan.argument_count, plan.result_count, plan.symbol_count}) require(is_in(count, most));
  require(plan.device.type <= Device::Type::cuda && plan.device.index == 0);
  const auto buffers = static_cast<std::int64_t>(plan.buffers.size());
  for (const PlanBuffer& buffer : plan.buffers) {
    using Kind = PlanBuffer::Kind;
    require(buffer.kind <= Kind::error);
    // What a device computes from or for the host is staged; the host has no error word.
    require(!is_on_host(plan) || (!buffer.host && buffer.kind != Kind::error));
    require(!buffer.host || buffer.kind == Kind::argument || buffer.kind == Kind::result);
    require(buffer.kind != Kind::error || buffer.dtype == DType::i32);
    const std::int64_t of_kind = buffer.kind == Kind::argument   ? plan.argument_count
                                 : buffer.kind == Kind::result   ? plan.result_count
                                 : buffer.kind == Kind::constant ? static_cast<std::int64_t>(plan.constants.size())
                                                                 : most;
    require(is_in(buffer.index, of_kind));
    require(buffer.in_result == -1 || (buffer.kind == Kind::temporary && buffer.offset.is_constant() &&
                                       is_in(buffer.in_result, plan.result_count)));
  }
  for (const Launch& launch : plan.launches) {
    for (const int buffer : launch.buffers) require(is_in(buffer, buffers));
    require(launch.writes.size() <= launch.buffers.size());
  }
  for (const Plan::Donation& donation : plan.donations)
    require(is_in(donation.argument, plan.argument_count) && is_in(donation.result, plan.result_count));
}

// What a function is launched with: its function and units, its numbers, and the dtypes and sizes of its buffers. It
// reads and writes what these say, whoever says it. On a device `written` is the step, with all that is in it.
template <class To>
void note_launch(To& to, const Plan& plan, const Launch& launch, std::string_view written = {}) {
  if (launch.entry.name.empty() && launch.entry.inner.empty()) return;
  if (launch.entry.name.empty() && is_on_host(plan)) return;  // its bodies have noted theirs
  FieldWriter all;
  all(launch.entry, launch.writes, launch.step->stored_as());
  for (const int b : launch.buffers) {
    const PlanBuffer& buffer = plan.buffers[static_cast<std::size_t>(b)];
    all(buffer.dtype, buffer.elements);
  }
  if (is_on_host(plan))
    launch.step->write(all, launch.entry);
  else
    all(std::string(written));
  to.launches.push_back(digest(all.bytes()));
}

// A device's step is read by a reader of its own, which does not know how deep it lies.
class DeviceDepth {
 public:
  DeviceDepth() {
    if (++depth() > 64) --depth(), throw Malformed();
  }
  ~DeviceDepth() { --depth(); }
  DeviceDepth(const DeviceDepth&) = delete;

 private:
  static int& depth() {
    thread_local int now = 0;
    return now;
  }
};

}  // namespace

void write_plan(FieldWriter& to, const Plan& plan) {
  std::apply(to, fields_of(plan));
  for (const PlanBuffer& buffer : plan.buffers)
    if (buffer.host && buffer.kind == PlanBuffer::Kind::temporary)
      return to.refuse("values of the device wait in the host's memory (offload), which has no form on disk");
  to(plan.launches.size());
  for (const Launch& launch : plan.launches) {
    std::apply(to, fields_of_launch(launch));
    const std::string name = launch.step->stored_as();
    if (name.empty()) return to.refuse("the step " + launch.name + " has no form on disk");
    to(name);
    if (is_on_host(plan)) {
      launch.step->write(to, launch.entry);
      note_launch(to, plan, launch);
      continue;
    }
    if (std::ranges::find(device_steps, name) == std::end(device_steps))
      return to.refuse(concat_text("the step ", name, " (",
                                   launch.operations.empty() ? launch.name : launch.operations[0],
                                   ") has no form on disk for a device"));
    FieldWriter step;  // its bytes are counted: who has no reader for it passes over them
    launch.step->write(step, launch.entry);
    if (!step.refusal().empty()) return to.refuse(step.refusal());
    to(step.bytes());
    note_launch(to, plan, launch, step.bytes());
  }
}

Plan read_plan(FieldReader& from, const StepReader& read_step) {
  const FieldReader::Nested nested(from);
  Plan plan;
  std::apply(from, fields_of(plan));
  std::vector<std::string> written;  // of a device: each step
  for (auto left = from.take<std::size_t>(); left > 0; --left) {
    Launch& launch = plan.launches.emplace_back();
    std::apply(from, fields_of_launch(launch));
    const auto name = from.take<std::string>();
    if (is_on_host(plan)) {
      launch.step = read_step(name, from);
    } else {
      written.push_back(from.take<std::string>());
      const DeviceDepth deeper;
      FieldReader step(written.back());
      launch.step = read_step(std::string(device_step_prefix) + name, step);
      require(step.at_end());
    }
    require(launch.step != nullptr);
  }
  check(plan);
  for (std::size_t i = 0; i < plan.launches.size(); ++i)
    note_launch(from, plan, plan.launches[i], is_on_host(plan) ? std::string_view() : written[i]);
  return plan;
}

void write_launches(FieldWriter& to, std::vector<Digest> launches) {
  std::ranges::sort(launches);
  for (const Digest& launch : launches) to(launch.low, launch.high);
}

}  // namespace weft::runtime
