#include "runtime/plan_parts.hpp"

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "base/gaps.hpp"

namespace weft::runtime {

// What a call has besides what its parts take: places of values between parts, on each device one block.
struct PlanParts::Frame {
  std::vector<std::int64_t> symbols, numbers;
  bool computed = false;
  std::vector<Storage*> blocks;  // by device
  std::vector<void*> pointers;   // by value

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
    if (value.kind == PartValue::Kind::temporary && std::ranges::find(devices_, value.device) == devices_.end())
      devices_.push_back(value.device);
  }
  elements_ = numbers_.add(elements);
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
  frame->pointers.resize(values_.size(), nullptr);
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
    Storage*& block = frame.blocks[d];
    if (block && block->bytes < static_cast<std::size_t>(all)) release(std::exchange(block, nullptr));
    if (!block) block = allocate(devices_[d], static_cast<std::size_t>(all));
    for (const auto& [value, at] : placed) frame.pointers[value] = static_cast<std::byte*>(block->data) + at;
  }
  frame.computed = true;
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
    if (parts_[p].plan) calls[p] = begin(*parts_[p].plan, symbols);
  std::vector<void*> from, to;
  std::vector<Storage*> own;
  const auto pointers_of = [&](const std::vector<int>& list, std::vector<void*>& pointers) {
    pointers.clear();
    for (const int value : list) pointers.push_back(frame.pointers[static_cast<std::size_t>(value)]);
  };
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = parts_[p];
    pointers_of(part.arguments, from);
    pointers_of(part.results, to);
    if (!part.plan) {
      const auto source = static_cast<std::size_t>(part.arguments.front());
      const Device target = values_[static_cast<std::size_t>(part.results.front())].device;
      const std::int64_t bytes = storage_bytes(values_[source].dtype, frame.numbers[elements_.begin + source]);
      const Device device = target.type != Device::Type::cpu ? target : values_[source].device;
      device_interface(device.type)
          .copy(to.front(), target, from.front(), values_[source].device, static_cast<std::size_t>(bytes), nullptr);
      continue;
    }
    own.clear();
    for (const std::span<Storage* const> list : {blocks, std::span<Storage* const>(frame.blocks)})
      for (Storage* const block : list)
        if (block && block->device == part.plan->device) own.push_back(block);
    calls[p]->run(from, to, own);
    calls[p].reset();
  }
}

std::size_t step_count(const Plan& plan) {
  if (!plan.parts) return plan.launches.size();
  std::size_t count = 0;
  for (const Part& part : plan.parts->parts()) count += part.plan ? step_count(*part.plan) : 1;
  return count;
}

}  // namespace weft::runtime
