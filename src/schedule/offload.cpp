#include "schedule/offload.hpp"

#include <algorithm>
#include <deque>

#include "runtime/transfer.hpp"
#include "schedule/score.hpp"

namespace weft {
namespace {

class TransferPayload final : public Payload {
 public:
  TransferPayload(runtime::Transfer transfer, bool begins) : transfer_(std::move(transfer)), begins_(begins) {}
  std::string details() const override { return begins_ ? ", begun" : ", awaited"; }
  loop::Cost cost() const override { return {begins_ ? transfer_.bytes : Dim(0), 0}; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return begins_ ? beginning_of(transfer_, preparation) : end_of(transfer_, preparation);
  }

 private:
  runtime::Transfer transfer_;
  bool begins_;
};

// A value that may be away between two of its uses. A place is the number of the step before which something is put.
struct Absence {
  std::size_t buffer;
  double bytes;
  std::size_t written, left;          // after the step that writes it last, and after the last that touches it before
  std::size_t read;                   // before the step that touches it next
  std::size_t gone = 0, returns = 0;  // where the copy to the host has ended, where the copy back begins
  bool stays = false;
};

// The longest time between two uses of each value, after all that write it.
std::vector<Absence> find_absences(const Schedule& schedule, const Score& score) {
  struct Uses {
    std::vector<std::size_t> steps;
    std::size_t written = 0;
  };
  std::vector<Uses> uses(schedule.buffers.size());
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t i = 0; i < writes.size(); ++i) {
      Uses& of = uses[static_cast<std::size_t>(step.buffers[i])];
      if (of.steps.empty() || of.steps.back() != s) of.steps.push_back(s);
      if (writes[i]) of.written = s;
    }
  }
  std::vector<Absence> all;
  for (std::size_t b = 0; b < uses.size(); ++b) {
    const ScheduleBuffer& buffer = schedule.buffers[b];
    if (buffer.kind != ScheduleBuffer::Kind::temporary || !buffer.may_leave) continue;
    const double bytes = score.number(storage_bytes(info(buffer.dtype), buffer.elements));
    if (bytes < static_cast<double>(offload_choices.least_bytes)) continue;
    const auto& [steps, written] = uses[b];
    std::size_t longest = 0;
    Absence found{b, bytes, written + 1, 0, 0};
    for (std::size_t i = 0; i + 1 < steps.size(); ++i)
      if (steps[i] >= written && steps[i + 1] - steps[i] > longest) {
        longest = steps[i + 1] - steps[i];
        found.left = steps[i] + 1, found.read = steps[i + 1];
      }
    if (longest > 1) all.push_back(found);
  }
  return all;
}

double window_of(std::span<const Absence> absences) {
  double all = 0, largest = 0;
  for (const Absence& each : absences) all += each.bytes, largest = std::max(largest, each.bytes);
  return std::max(all / 8, largest);
}

// `absences` in the order in which their copies to the host begin. Those that are never waited for stay.
void end_copies_to_host(std::span<Absence> absences, double window) {
  std::deque<Absence*> under_way;
  double bytes = 0;
  for (Absence& next : absences) {
    while (!under_way.empty() && (bytes + next.bytes > window || under_way.front()->read <= next.written)) {
      Absence& oldest = *under_way.front();
      under_way.pop_front();
      bytes -= oldest.bytes;
      oldest.gone = std::max(next.written, oldest.left);
      oldest.stays = oldest.gone >= oldest.read;
    }
    under_way.push_back(&next);
    bytes += next.bytes;
  }
  for (Absence* const last : under_way) last->stays = true;
}

// `absences` in the order in which they are read, `begun` where copies to the host begin, in order. A copy back begins
// once what is back already leaves room for it, and after all copies to the host that begin before it is read.
void begin_copies_back(std::span<Absence* const> absences, std::span<const std::size_t> begun, double window) {
  std::size_t first = 0;  // of those that are back
  double bytes = 0;
  for (Absence* const each : absences) {
    bytes += each->bytes;
    for (; bytes > window; ++first) bytes -= absences[first]->bytes;
    const auto later = std::lower_bound(begun.begin(), begun.end(), each->read);
    each->returns = later == begun.begin() ? 0 : *(later - 1);
    if (first > 0) each->returns = std::max(each->returns, absences[first - 1]->read);
    each->returns = std::max(each->returns, each->gone);
    each->stays = each->returns == each->gone;
  }
}

// A copy that begins and ends at two places; where the numbers of its steps are noted.
struct Way {
  std::size_t begins, ends;
  std::pair<Step, Step> steps;
  int *beginning, *end;
};

std::pair<Step, Step> steps_between(const ScheduleBuffer& value, int from, int to, bool to_host) {
  const runtime::Transfer transfer = runtime::make_transfer(storage_bytes(info(value.dtype), value.elements), to_host);
  const auto step = [&](bool begins) {
    return Step{to_host ? "offload" : "bring_back",
                {from, to},
                std::make_shared<TransferPayload>(transfer, begins),
                {value.what}};
  };
  return {step(true), step(false)};
}

// At a place, copies that began earlier end first; then others begin; those that are awaited at once end last.
void insert(Schedule& schedule, std::span<Way> ways) {
  std::vector<std::vector<std::pair<Step*, int*>>> before(schedule.steps.size());
  for (Way& way : ways)
    if (way.begins < way.ends) before[way.ends].emplace_back(&way.steps.second, way.end);
  for (Way& way : ways) before[way.begins].emplace_back(&way.steps.first, way.beginning);
  for (Way& way : ways)
    if (way.begins == way.ends) before[way.ends].emplace_back(&way.steps.second, way.end);
  std::vector<Step> steps;
  for (std::size_t s = 0; s < before.size(); ++s) {
    for (const auto& [step, number] : before[s]) {
      if (number) *number = static_cast<int>(steps.size());
      steps.push_back(std::move(*step));
    }
    steps.push_back(std::move(schedule.steps[s]));
  }
  schedule.steps = std::move(steps);
}

}  // namespace

void offload_values(Schedule& schedule, const Graph& graph, Device device) {
  if (device.type == Device::Type::cpu && !offload_choices.on_host) return;
  if (std::ranges::none_of(schedule.buffers, &ScheduleBuffer::may_leave)) return;
  std::vector<Absence> absences = find_absences(schedule, Score(graph, device));
  std::ranges::stable_sort(absences, {}, &Absence::written);
  const double window = window_of(absences);
  end_copies_to_host(absences, window);
  std::vector<std::size_t> begun;
  for (const Absence& each : absences) begun.push_back(each.written);
  std::vector<Absence*> by_read;
  for (Absence& each : absences)
    if (!each.stays) by_read.push_back(&each);
  std::ranges::stable_sort(by_read, {}, &Absence::read);
  begin_copies_back(by_read, begun, window);
  std::erase_if(absences, [](const Absence& each) { return each.stays; });
  if (absences.empty()) return;

  const auto first_on_host = schedule.buffers.size();
  for (const Absence& each : absences) {
    const ScheduleBuffer& buffer = schedule.buffers[each.buffer];
    ScheduleBuffer copy;
    copy.kind = ScheduleBuffer::Kind::offloaded;
    copy.dtype = buffer.dtype;
    copy.elements = buffer.elements;
    copy.offset = schedule.host_bytes;
    constexpr std::int64_t alignment = 256;
    const Dim bytes = storage_bytes(info(buffer.dtype), buffer.elements);
    schedule.host_bytes = schedule.host_bytes + (bytes + Dim(alignment - 1)) / Dim(alignment) * Dim(alignment);
    schedule.buffers.push_back(std::move(copy));
  }
  std::vector<Way> ways;
  for (std::size_t i = 0; i < absences.size(); ++i) {
    ScheduleBuffer& buffer = schedule.buffers[absences[i].buffer];
    const int on_device = static_cast<int>(absences[i].buffer), on_host = static_cast<int>(first_on_host + i);
    ways.push_back({absences[i].written, absences[i].gone, steps_between(buffer, on_device, on_host, true), nullptr,
                    &buffer.leaves_at});
    ways.push_back({absences[i].returns, absences[i].read, steps_between(buffer, on_host, on_device, false),
                    &buffer.returns_at, nullptr});
  }
  insert(schedule, ways);
}

}  // namespace weft
