#include "runtime/constants.hpp"

#include <algorithm>
#include <map>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "runtime/sequence.hpp"

namespace weft::runtime {

namespace {

// Taken by one thread at a time; others do not wait. In the child of a fork it may stay taken: there the calls go on
// without what it guards.
class Claim {
 public:
  explicit Claim(std::atomic<bool>& taken) : taken_(taken), got_(!taken.exchange(true, std::memory_order_acquire)) {}
  Claim(const Claim&) = delete;
  ~Claim() {
    if (got_) taken_.store(false, std::memory_order_release);
  }
  explicit operator bool() const { return got_; }

 private:
  std::atomic<bool>& taken_;
  const bool got_;
};

// A packed operand, and the value that it was made of: while there is one, its key names no other value.
struct PackedOperand {
  std::shared_ptr<const void> of;
  std::unique_ptr<Storage, void (*)(Storage*)> memory;
  const std::byte* data() const { return static_cast<const std::byte*>(memory->data); }
};

// Those of all plans, by the key of the value and how it is packed.
struct SharedOperands {
  std::atomic<bool> taken = false;
  std::map<std::pair<const void*, std::string>, std::weak_ptr<const PackedOperand>> all;
};
SharedOperands& shared_operands() {
  static auto* const all = new SharedOperands;  // a static object of the program may own a plan
  return *all;
}

}  // namespace

class Constants::Kept {
 public:
  std::vector<const void*> keys;
  std::vector<std::shared_ptr<const void>> values;
  std::vector<std::shared_ptr<const PackedOperand>> operands;
  std::vector<const std::byte*> packed;  // by place in the table of pointers
};

Constants::Constants(const Plan& plan, const Sequence& sequence)
    : constants_(plan.constant_arguments.size()), places_(sequence.pointers()) {
  if (plan.device.type != Device::Type::cpu || plan.constant_arguments.empty()) return;
  for (std::size_t s = 0; s < sequence.steps(); ++s) {
    const auto* const step = dynamic_cast<const PackingStep*>(&sequence.step(s));
    if (!step) continue;
    const std::size_t table = sequence.begin_of(s);
    for (std::size_t place = table; place < sequence.end_of(s); ++place) {
      const PlanBuffer& buffer = plan.buffers[static_cast<std::size_t>(sequence.table()[place])];
      if (buffer.kind != PlanBuffer::Kind::argument) continue;
      const auto found = std::ranges::find(plan.constant_arguments, buffer.index);
      if (found == plan.constant_arguments.end()) continue;
      if (const std::size_t bytes = step->packed_bytes(place - table); bytes > 0)
        operands_.push_back({step, table, place - table,
                             static_cast<std::size_t>(found - plan.constant_arguments.begin()), bytes,
                             step->packed_as(place - table)});
    }
  }
}

const Constants::Kept* Constants::find(std::shared_ptr<const Kept>& own, const ConstantKeys& constants,
                                       const StepCall& call, bool& is_new) {
  is_new = false;
  if (constants.keys.size() != constants_ || operands_.empty()) return nullptr;
  const auto equal = [&](const std::vector<const void*>& keys) { return std::ranges::equal(keys, constants.keys); };
  if (own && equal(own->keys)) return own.get();
  own.reset();
  const Claim claim(taken_);
  if (!claim || gives_up_) return nullptr;
  if (now_ && equal(now_->keys)) {
    seen_.clear();  // who has two sets of values in turn keeps one of them
    own = now_;
  } else if (equal(seen_)) {
    try {
      now_ = make(constants, call);
    } catch (const OutOfMemory&) {
      gives_up_ = true;
      now_.reset();
    }
    own = now_;
    is_new = true;
  } else {
    seen_.assign(constants.keys.begin(), constants.keys.end());
  }
  return own.get();
}

const std::byte* const* Constants::packed(const Kept* kept) { return kept ? kept->packed.data() : nullptr; }

std::size_t Constants::bytes() {
  const Claim claim(taken_);
  std::size_t bytes = 0;
  if (claim && now_)
    for (const Operand& operand : operands_) bytes += operand.bytes;
  return bytes;
}

std::shared_ptr<const Constants::Kept> Constants::make(const ConstantKeys& constants, const StepCall& call) const {
  auto kept = std::make_shared<Kept>();
  kept->keys.assign(constants.keys.begin(), constants.keys.end());
  kept->packed.resize(places_);
  SharedOperands& shared = shared_operands();
  const Claim claim(shared.taken);
  if (claim) std::erase_if(shared.all, [](const auto& each) { return each.second.expired(); });
  for (const Operand& operand : operands_) {
    const std::pair key(constants.keys[operand.constant], operand.how);
    std::shared_ptr<const PackedOperand> found;
    if (claim)
      if (const auto known = shared.all.find(key); known != shared.all.end()) found = known->second.lock();
    if (!found) {
      auto made = std::make_shared<PackedOperand>(PackedOperand{constants.hold(constants.context, operand.constant),
                                                                {allocate(Device::cpu(), operand.bytes), release}});
      const StepCall own{call.pointers + operand.table, call.numbers, {}, nullptr};
      operand.step->pack(operand.buffer, own, static_cast<std::byte*>(made->memory->data));
      if (claim) shared.all[key] = made;
      found = std::move(made);
    }
    kept->packed[operand.table + operand.buffer] = found->data();
    kept->operands.push_back(std::move(found));
  }
  // Their keys are compared in each call, whichever of them are packed.
  for (std::size_t i = 0; i < constants_; ++i) kept->values.push_back(constants.hold(constants.context, i));
  return kept;
}

}  // namespace weft::runtime
