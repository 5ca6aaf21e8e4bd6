// Memory: which results may be written into which arguments, and what is written where from the start. In: steps in
// order. Out: donations; offsets and the arena's size, by schedule/places.
#include <algorithm>
#include <span>
#include <vector>

#include "loop/analysis.hpp"
#include "schedule/places.hpp"

namespace weft {
namespace {

// A temporary that its last reader would copy into a result lies in the result from the start. So a chain of updates
// is written in one place, and that may be an argument's. Kernels copy nothing.
void place_in_results(Schedule& schedule) {
  const std::vector<Lifetime> lives = lifetimes(schedule);
  for (std::size_t s = schedule.steps.size(); s-- > 0;) {
    const Step& step = schedule.steps[s];
    if (step.payload->kernel()) continue;
    for (const int r : step.buffers) {
      const ScheduleBuffer& result = schedule.buffers[static_cast<std::size_t>(r)];
      if (result.kind != ScheduleBuffer::Kind::result ||
          lives[static_cast<std::size_t>(r)].first != static_cast<int>(s))
        continue;
      for (const int a : step.buffers) {
        ScheduleBuffer& given = schedule.buffers[static_cast<std::size_t>(a)];
        if (given.kind == ScheduleBuffer::Kind::temporary && given.strides.empty() && given.dtype == result.dtype &&
            given.elements.same(result.elements) && lives[static_cast<std::size_t>(a)].last == static_cast<int>(s) &&
            step.payload->in_place(a, r))
          given.kind = ScheduleBuffer::Kind::result, given.index = result.index;
      }
    }
  }
}

class Donations {
 public:
  Donations(Schedule& schedule, const std::vector<Lifetime>& lives)
      : schedule_(schedule), lives_(lives), taken_(schedule.buffers.size(), false) {
    for (std::size_t s = 0; s < schedule.steps.size(); ++s)
      if (schedule.steps[s].payload->may_fail()) last_check_ = static_cast<int>(s);
  }

  void find(std::span<const Update> updates) {
    for (const Update& update : updates)
      for_each_result([&](std::size_t result, int argument) {
        return schedule_.buffers[result].index == update.output &&
               schedule_.buffers[static_cast<std::size_t>(argument)].index == update.input;
      });
    for_each_result([](std::size_t, int) { return true; });
  }

 private:
  // Results that have no memory yet take that of the first argument that will do.
  template <class Allowed>
  void for_each_result(Allowed allowed) {
    for (std::size_t r = 0; r < schedule_.buffers.size(); ++r) {
      const ScheduleBuffer& result = schedule_.buffers[r];
      if (result.kind != ScheduleBuffer::Kind::result || taken_[r] || lives_[r].first < 0 ||
          lives_[r].first <= last_check_)
        continue;
      for (const int a : schedule_.steps[static_cast<std::size_t>(lives_[r].first)].buffers) {
        if (!allowed(r, a) || !may_take(r, a)) continue;
        taken_[r] = taken_[static_cast<std::size_t>(a)] = true;
        schedule_.donations.push_back({schedule_.buffers[static_cast<std::size_t>(a)].index, result.index});
        break;
      }
    }
  }
  bool may_take(std::size_t r, int a) const {
    const auto index = static_cast<std::size_t>(a);
    const ScheduleBuffer &argument = schedule_.buffers[index], &result = schedule_.buffers[r];
    if (argument.kind != ScheduleBuffer::Kind::argument || taken_[index] || argument.dtype != result.dtype ||
        !argument.elements.same(result.elements) || lives_[index].last != lives_[r].first)
      return false;
    const Payload& step = *schedule_.steps[static_cast<std::size_t>(lives_[r].first)].payload;
    return step.in_place(a, static_cast<int>(r)) && !reads_at_values(step, a);
  }
  // Whether the kernel reads the argument at an index that a value decides, as a loss reads a label's logit. A caller
  // gives such up rarely, and on a device a donation makes a kernel ask for the error word.
  static bool reads_at_values(const Payload& step, int argument) {
    const loop::Kernel* const kernel = step.kernel();
    return kernel && std::ranges::any_of(kernel->body, [&](const loop::Instruction& it) {
             return it.kind == loop::Kind::load &&
                    kernel->buffers[static_cast<std::size_t>(it.buffer)].value == argument &&
                    !loop::values_in(it.index).empty();
           });
  }

  Schedule& schedule_;
  const std::vector<Lifetime>& lives_;
  std::vector<bool> taken_;
  int last_check_ = -1;
};

// The buffers of a step with one more: of each set, where it is a table.
std::vector<int> with_buffer(const Step& step, std::size_t buffers_of_a_set, int buffer) {
  std::vector<int> all;
  for (std::size_t i = 0; i < step.buffers.size(); ++i) {
    all.push_back(step.buffers[i]);
    if ((i + 1) % buffers_of_a_set == 0) all.push_back(buffer);
  }
  return all;
}

// On a device: what donations write is not written once a check has failed.
void predicate_donations(Schedule& schedule) {
  const auto is_check = [](const Step& step) { return step.payload->is_check(); };
  if (std::none_of(schedule.steps.begin(), schedule.steps.end(), is_check)) return;
  const int error = static_cast<int>(schedule.buffers.size());
  schedule.buffers.push_back({ScheduleBuffer::Kind::error, 0, DType::i32, 1});
  const auto results_of = [&](const Step& step) {
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    std::vector<int> results;
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const ScheduleBuffer& it = schedule.buffers[static_cast<std::size_t>(step.buffers[i])];
      if (writes[i] && it.kind == ScheduleBuffer::Kind::result) results.push_back(it.index);
    }
    return results;
  };
  for (Step& step : schedule.steps) {
    if (is_check(step)) {
      step.buffers.push_back(error);
      continue;
    }
    const std::vector<int> results = results_of(step);
    const auto is_written = [&](const Schedule::Donation& donation) {
      return std::find(results.begin(), results.end(), donation.result) != results.end();
    };
    if (results.empty() || std::none_of(schedule.donations.begin(), schedule.donations.end(), is_written)) continue;
    if (auto predicated = step.payload->predicated(error)) {
      const loop::Kernel* const kernel = step.payload->kernel();
      step.buffers = with_buffer(step, kernel ? kernel->buffers.size() : step.buffers.size(), error);
      step.payload = std::move(predicated);
    } else {
      std::erase_if(schedule.donations, is_written);
    }
  }
}

}  // namespace

void read_early(Schedule& schedule, std::span<const int> constant_inputs) {
  using Kind = ScheduleBuffer::Kind;
  std::vector<bool> steady, constant;
  for (const ScheduleBuffer& it : schedule.buffers) {
    steady.push_back(it.kind == Kind::argument || it.kind == Kind::constant || it.kind == Kind::packed);
    const bool is_given =
        it.kind == Kind::argument && std::ranges::find(constant_inputs, it.index) != constant_inputs.end();
    constant.push_back(is_given || it.kind == Kind::constant || it.kind == Kind::packed);
  }
  // Whether its results are made of constants alone; notes them.
  const auto is_of_constants = [&](const Step& step) {
    const std::vector<bool> writes = step.payload->writes(step.buffers.size());
    for (std::size_t i = 0; i < writes.size(); ++i)
      if (!writes[i] && !constant[static_cast<std::size_t>(step.buffers[i])]) return false;
    for (std::size_t i = 0; i < writes.size(); ++i)
      if (writes[i]) constant[static_cast<std::size_t>(step.buffers[i])] = true;
    return true;
  };
  bool follows = false;
  for (Step& step : schedule.steps) {
    if (!constant_inputs.empty() && is_of_constants(step)) continue;
    if (follows)
      if (auto early = step.payload->reading_early(steady)) step.payload = std::move(early);
    const loop::Kernel* const kernel = step.payload->generated() ? step.payload->kernel() : nullptr;
    if (!kernel) continue;
    const Dim units = loop::over_symbols(loop::unit_count(*kernel), *kernel);
    follows |= units.is_constant() && units.constant() > 0;
  }
}

void plan_memory(Schedule& schedule, Device device, std::span<const Update> updates, bool in_results) {
  place_in_results(schedule);
  const std::vector<Lifetime> lives = lifetimes(schedule);
  Donations(schedule, lives).find(updates);
  place_temporaries(schedule, lives, device, in_results);
  if (device.type != Device::Type::cpu) predicate_donations(schedule);
}

}  // namespace weft
