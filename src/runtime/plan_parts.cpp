#include "runtime/plan_parts.hpp"

#include <algorithm>
#include <utility>

#include "base/between_devices.hpp"
#include "base/fail.hpp"
#include "base/gaps.hpp"

namespace weft::runtime {

static bool is_on_device(Device device) { return device.type != Device::Type::cpu; }

// What a call has besides arguments and results: on each device one block, for values between parts and for the arena
// of the part that runs there; and the moments that devices wait for.
struct PlanParts::Frame {
  std::vector<std::int64_t> symbols, numbers;
  bool computed = false;
  std::vector<Storage*> blocks;                // by device
  std::vector<std::byte*> arenas;              // by part; null: it has its own
  std::vector<void*> pointers;                 // by value
  std::vector<std::unique_ptr<Moment>> begun;  // by device: when the call began
  std::vector<std::unique_ptr<Moment>> done;   // by part: of a copy

  explicit Frame(std::size_t devices) : blocks(devices, nullptr) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    for (Storage* const block : blocks)
      if (block) release(block);
  }
};

PlanParts::PlanParts(std::vector<PartValue> values, std::vector<Part> parts, std::size_t symbols)
    : values_(std::move(values)), parts_(std::move(parts)), lives_(values_.size()), numbers_(symbols) {
  std::vector<Dim> elements;
  std::vector<bool> met(values_.size(), false);
  for (std::size_t part = 0; part < parts_.size(); ++part)
    for (const std::vector<int>* list : {&parts_[part].arguments, &parts_[part].results})
      for (const int value : *list) {
        const auto at = static_cast<std::size_t>(value);
        if (!met[at]) lives_[at].first = part;
        lives_[at].second = part;
        met[at] = true;
      }
  for (const PartValue& value : values_) {
    elements.push_back(value.elements);
    if (std::ranges::find(devices_, value.device) == devices_.end()) devices_.push_back(value.device);
  }
  elements_ = numbers_.add(elements);
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part].plan) continue;
    const auto to = static_cast<std::size_t>(parts_[part].results.front());
    copied_by_[to] = part;
    lives_[to] = {0, parts_.size() - 1};  // the copy need not wait for what else would lie there
  }
}
PlanParts::~PlanParts() = default;

std::unique_ptr<PlanParts::Frame> PlanParts::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!spares_.empty()) {
      std::unique_ptr<Frame> frame = std::move(spares_.back());
      spares_.pop_back();
      return frame;
    }
  }
  auto frame = std::make_unique<Frame>(devices_.size());
  frame->numbers = numbers_.constants();
  frame->arenas.resize(parts_.size(), nullptr);
  frame->pointers.resize(values_.size(), nullptr);
  frame->done.resize(parts_.size());
  const BetweenDevices* const between = between_devices.load(std::memory_order_acquire);
  for (const Device device : devices_) frame->begun.push_back(is_on_device(device) ? between->moment(device) : nullptr);
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (const auto from = copy_from(part)) frame->done[part] = between->moment(*from);
  return frame;
}
void PlanParts::give_back(std::unique_ptr<Frame> frame) const {
  const std::lock_guard lock(mutex_);
  spares_.push_back(std::move(frame));
}

void PlanParts::compute(Frame& frame, std::span<const std::int64_t> symbols) const {
  frame.computed = false;
  frame.symbols.assign(symbols.begin(), symbols.end());
  numbers_.evaluate(frame.symbols, frame.numbers);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    constexpr std::int64_t alignment = 256;
    Gaps gaps(Gaps::unlimited, alignment);
    std::vector<std::pair<std::size_t, std::int64_t>> placed;  // values and their offsets
    std::int64_t all = 0;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].kind != PartValue::Kind::temporary || values_[v].device != devices_[d]) continue;
      const std::int64_t bytes = storage_bytes(values_[v].dtype, frame.numbers[elements_.begin + v]);
      const std::int64_t at = gaps.take(bytes, {static_cast<int>(lives_[v].first), static_cast<int>(lives_[v].second)});
      placed.emplace_back(v, at);
      all = std::max(all, at + bytes);
    }
    // Parts of a device run one after the other, so they share an arena. A plan of the host has workspaces in its own.
    const std::int64_t arena_at = (all + alignment - 1) / alignment * alignment;
    std::vector<std::size_t> own;
    for (std::size_t p = 0; p < parts_.size() && is_on_device(devices_[d]); ++p) {
      const Plan* const plan = parts_[p].plan.get();
      if (!plan || plan->device != devices_[d]) continue;
      const auto bytes = static_cast<std::int64_t>(arena_bytes(*plan, symbols));
      if (bytes == 0) continue;
      own.push_back(p);
      all = std::max(all, arena_at + bytes);
    }
    Storage*& block = frame.blocks[d];
    if (block && block->bytes < static_cast<std::size_t>(all)) release(std::exchange(block, nullptr));
    if (!block && all > 0) block = allocate(devices_[d], static_cast<std::size_t>(all));
    if (!block) continue;
    auto* const memory = static_cast<std::byte*>(block->data);
    for (const auto& [value, at] : placed) frame.pointers[value] = memory + at;
    for (const std::size_t part : own) frame.arenas[part] = memory + arena_at;
  }
  frame.computed = true;
}

// The device of the value that is copied; none of a part with a plan.
std::optional<Device> PlanParts::copy_from(std::size_t part) const {
  if (parts_[part].plan) return {};
  return values_[static_cast<std::size_t>(parts_[part].arguments.front())].device;
}

// The place that a copy writes was last used before the call began, so it waits for that alone. Who reads the value
// waits for the copy.
void PlanParts::run_copy(Frame& frame, std::size_t part, std::span<Storage* const> blocks) const {
  const auto source = static_cast<std::size_t>(parts_[part].arguments.front()),
             target = static_cast<std::size_t>(parts_[part].results.front());
  const Device from = values_[source].device, to = values_[target].device;
  const auto bytes =
      static_cast<std::size_t>(storage_bytes(values_[source].dtype, frame.numbers[elements_.begin + source]));
  if (bytes == 0) return;
  const auto device = static_cast<std::size_t>(std::ranges::find(devices_, to) - devices_.begin());
  frame.begun[device]->hold(from);
  between_devices.load(std::memory_order_acquire)
      ->copy(frame.pointers[target], to, frame.pointers[source], from, bytes, blocks);
  frame.done[part]->set();
}

void PlanParts::run(std::span<void* const> arguments, std::span<void* const> results,
                    std::span<const std::int64_t> symbols, std::span<Storage* const> blocks) const {
  const auto give = [this](Frame* frame) { give_back(std::unique_ptr<Frame>(frame)); };
  const std::unique_ptr<Frame, decltype(give)> loan(take().release(), give);
  Frame& frame = *loan;
  if (!frame.computed || !std::ranges::equal(symbols, frame.symbols)) compute(frame, symbols);
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const auto index = static_cast<std::size_t>(values_[v].index);
    if (values_[v].kind == PartValue::Kind::argument) frame.pointers[v] = arguments[index];
    if (values_[v].kind == PartValue::Kind::result) frame.pointers[v] = results[index];
  }
  std::vector<std::unique_ptr<BegunCall>> calls(parts_.size());
  for (std::size_t p = 0; p < parts_.size(); ++p)
    if (parts_[p].plan) calls[p] = begin(*parts_[p].plan, symbols, frame.arenas[p]);
  std::vector<void*> from, to;
  std::vector<Storage*> own;
  const auto blocks_of = [&](Device device) -> std::span<Storage* const> {
    own.clear();
    for (const std::span<Storage* const> list : {blocks, std::span<Storage* const>(frame.blocks)})
      for (Storage* const block : list)
        if (block && block->device == device) own.push_back(block);
    return own;
  };
  const auto pointers_of = [&](const std::vector<int>& list, std::vector<void*>& pointers) {
    pointers.clear();
    for (const int value : list) pointers.push_back(frame.pointers[static_cast<std::size_t>(value)]);
  };
  for (const auto& moment : frame.begun)
    if (moment) moment->set();
  const auto wait_for_copy = [&](int value, Device device) {
    const auto copy = copied_by_.find(static_cast<std::size_t>(value));
    if (copy != copied_by_.end()) frame.done[copy->second]->hold(device);
  };
  // What follows the call on a device may read what was copied there, and write where it was: also where a check has
  // failed, and the results are given back.
  const auto end = [&] {
    for (const auto& [value, part] : copied_by_) wait_for_copy(static_cast<int>(value), values_[value].device);
  };
  for (std::size_t p = 0; p < parts_.size(); ++p) try {
      const Part& part = parts_[p];
      if (!part.plan) {
        const Device device = *copy_from(p);
        wait_for_copy(part.arguments.front(), device);
        run_copy(frame, p, blocks_of(device));
        continue;
      }
      pointers_of(part.arguments, from);
      pointers_of(part.results, to);
      for (const int value : part.arguments) wait_for_copy(value, part.plan->device);
      calls[p]->run(from, to, blocks_of(part.plan->device));
      calls[p].reset();
    } catch (...) {
      end();
      throw;
    }
  end();
}

std::size_t step_count(const Plan& plan) {
  if (!plan.parts) return plan.launches.size();
  std::size_t count = 0;
  for (const Part& part : plan.parts->parts()) count += part.plan ? step_count(*part.plan) : 1;
  return count;
}

}  // namespace weft::runtime
