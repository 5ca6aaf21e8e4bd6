#include "providers/measured.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "providers/sources.hpp"
#include "runtime/host/isa.hpp"

namespace weft::providers {

namespace {

constexpr double clearly = 0.97;      // of the time of the one of the least rank
constexpr double long_enough = 2e-4;  // seconds: a run that takes less is timed together with others
constexpr int rounds = 5;

struct Known {
  std::mutex mutex;
  std::map<std::string, std::size_t> places;  // by what is done, and who offers
};
constinit Lazy<Known> known;

bool is_known(const PlacedValue& value) {
  const auto constant = [](Dim dim) { return dim.is_constant(); };
  const Shape& shape = value.type.shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (!shape[axis].is_constant()) return false;
  return value.offset.is_constant() && value.chosen < 0 && std::ranges::all_of(value.strides, constant);
}

std::int64_t elements_of(const PlacedValue& value) {
  std::int64_t last = value.offset.constant();
  for (int axis = 0; axis < value.type.shape.rank(); ++axis) {
    const std::int64_t size = value.type.shape[axis].constant();
    if (size == 0) return 0;
    last += (size - 1) * value.strides[static_cast<std::size_t>(axis)].constant();
  }
  return last + 1;
}

std::string name_of(const Candidate& candidate, std::span<const Offer> offers) {
  std::string name(info(candidate.node.op).name);
  for (const std::vector<PlacedValue>* const values : {&candidate.operands, &candidate.results})
    for (const PlacedValue& value : *values) {
      name += concat_text(" ", to_string(value.type), "+", value.offset.constant(), ":");
      for (const Dim stride : value.strides) name += concat_text(stride.constant(), ",");
    }
  for (const Offer& offer : offers) name += "; " + offer.payload->text();
  return name;
}

// One offer, ready to run. Its numbers do not depend on symbols.
struct Contender {
  runtime::NumberTable numbers{0};
  std::unique_ptr<runtime::Runnable> step;
  std::vector<std::byte> workspace;
  double least = std::numeric_limits<double>::infinity();

  // Seconds of a run.
  double time(std::span<void* const> pointers, int runs) {
    const runtime::StepCall call{pointers.data(), numbers.constants(), workspace, nullptr};
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) step->run(call);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / runs;
  }
};

std::optional<std::size_t> measure(const Candidate& candidate, std::span<const Offer> offers) {
  std::vector<Contender> all(offers.size());
  for (std::size_t i = 0; i < offers.size(); ++i) {
    Sources sources(candidate.device);
    const runtime::EntryPoint entry = offers[i].payload->emit(sources);
    if (!entry.name.empty()) return std::nullopt;
    all[i].step = offers[i].payload->prepare({candidate.device, all[i].numbers, nullptr, entry});
    if (all[i].step->has_workspace()) all[i].workspace.resize(all[i].step->workspace(all[i].numbers.constants()));
  }
  std::vector<TrialMemory> memory;
  std::vector<void*> pointers;
  for (const PlacedValue& operand : candidate.operands)
    memory.emplace_back(operand.type.dtype, elements_of(operand), true);
  for (const PlacedValue& result : candidate.results)
    memory.emplace_back(result.type.dtype, elements_of(result), false);
  for (const TrialMemory& each : memory) pointers.push_back(each.data());
  int runs = 1;
  for (Contender& each : all) {
    const double first = each.time(pointers, 1);  // may make what later runs find
    runs = std::max(runs, static_cast<int>(long_enough / std::max(std::min(first, each.time(pointers, 1)), 1e-6)));
  }
  for (int round = 0; round < rounds; ++round)
    for (Contender& each : all) each.least = std::min(each.least, each.time(pointers, runs));
  const auto ranked = std::ranges::min_element(offers, {}, [](const Offer& o) { return dims::at_hints(o.rank); });
  const auto first = static_cast<std::size_t>(ranked - offers.begin());
  std::size_t best = first;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].least < all[best].least * (best == first ? clearly : 1)) best = i;
  if (logging::enabled(logging::Channel::kernels)) {
    std::string text = concat_text(info(candidate.node.op).name, offers[best].payload->details(), ":");
    for (std::size_t i = 0; i < all.size(); ++i)
      text += concat_text(i == 0 ? " " : ", ", offers[i].payload->by().empty() ? "Weft" : offers[i].payload->by(), " ",
                          all[i].least * 1e6, " us");
    logging::write(logging::Channel::kernels, text);
  }
  return best;
}

}  // namespace

TrialMemory::TrialMemory(DType dtype, std::int64_t elements, bool read) {
  block_ = allocate(Device::cpu(), static_cast<std::size_t>(storage_bytes(dtype, std::max<std::int64_t>(elements, 1))));
  std::memset(block_->data, 0, block_->bytes);
  if (!read) return;
  const auto fill = [&](auto one) { std::fill_n(static_cast<decltype(one)*>(block_->data), elements, one); };
  if (dtype == DType::f32) fill(1.0F);
  if (dtype == DType::f64) fill(1.0);
  if (dtype == DType::bf16) fill(std::uint16_t{0x3f80});
  if (dtype == DType::f16) fill(std::uint16_t{0x3c00});
}

std::optional<std::size_t> fastest(const Candidate& candidate, std::span<const Offer> offers) {
  if (candidate.device.type != Device::Type::cpu || target_instruction_set() != host_isa()) return std::nullopt;
  if (!std::ranges::all_of(candidate.operands, is_known) || !std::ranges::all_of(candidate.results, is_known))
    return std::nullopt;
  if (!std::ranges::all_of(offers, [](const Offer& offer) { return offer.bodies.empty(); })) return std::nullopt;
  const std::string name = name_of(candidate, offers);
  Known& places = known.get();
  const std::lock_guard lock(places.mutex);  // one is measured at a time
  if (const auto found = places.places.find(name); found != places.places.end()) return found->second;
  const std::optional<std::size_t> best = measure(candidate, offers);
  if (best) places.places.emplace(name, *best);
  return best;
}

}  // namespace weft::providers
