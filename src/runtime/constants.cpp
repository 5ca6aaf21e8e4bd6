#include "runtime/constants.hpp"

#include <algorithm>

#include "base/lazy.hpp"
#include "base/short_lock.hpp"
#include "base/storage.hpp"
#include "runtime/host/steps.hpp"
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

// Those of all plans.
class SharedOperands {
 public:
  std::shared_ptr<const PackedOperand> find(const void* key, const Digest& how) {
    const ShortLock lock(mutex_);
    return find_locked(key, how);
  }
  // What is shared from now on: `made`, or what another thread has added meanwhile.
  std::shared_ptr<const PackedOperand> add(const void* key, const Digest& how,
                                           const std::shared_ptr<const PackedOperand>& made) {
    const ShortLock lock(mutex_);
    std::erase_if(all_, [](const auto& each) { return each.operand.expired(); });
    if (auto found = find_locked(key, how)) return found;
    all_.push_back({key, how, made});
    return made;
  }

 private:
  struct Entry {
    const void* key;  // of the value
    Digest how;
    std::weak_ptr<const PackedOperand> operand;
  };
  std::shared_ptr<const PackedOperand> find_locked(const void* key, const Digest& how) const {
    for (const Entry& each : all_)
      if (each.key == key && each.how == how)
        if (auto found = each.operand.lock()) return found;
    return nullptr;
  }
  std::mutex mutex_;
  std::vector<Entry> all_;
};
SharedOperands& shared_operands() {
  static constinit Lazy<SharedOperands> all;
  return all.get();
}

// Which of the constant arguments a buffer of an argument is; none of them: SIZE_MAX.
std::size_t constant_of(const Plan& plan, const PlanBuffer& buffer) {
  const auto found = std::ranges::find(plan.constant_arguments, buffer.index);
  return found == plan.constant_arguments.end() ? SIZE_MAX
                                                : static_cast<std::size_t>(found - plan.constant_arguments.begin());
}

}  // namespace

Constants::Constants(const Plan& plan, const Sequence& sequence)
    : sequence_(sequence),
      device_(plan.device),
      constants_(plan.constant_arguments.size()),
      done_once_(sequence.steps()) {
  if (plan.constant_arguments.empty()) return;
  find_steps(plan);
  find_operands(plan);
}

// Kernels that read constants, and results of such kernels, and nothing else. Their numbers depend on no symbol, each
// result is one step's, and they make no more than twice of what they read: a table that is expanded takes less time
// than memory.
void Constants::find_steps(const Plan& plan) {
  std::vector<int> writers(plan.buffers.size(), 0);
  for (std::size_t place = 0; place < sequence_.pointers(); ++place)
    writers[static_cast<std::size_t>(sequence_.table()[place])] += sequence_.writes(place);
  const auto bytes_of = [](const PlanBuffer& buffer) -> std::size_t {
    return storage_bytes(buffer.dtype, buffer.elements.constant());
  };
  const auto is_known = [](const auto& dims) {
    return std::ranges::all_of(dims, [](Dim dim) { return dim.is_constant(); });
  };
  for (std::size_t s = 0; s < sequence_.steps(); ++s) {
    const Launch& launch = plan.launches[s];
    if (launch.step->stored_as() != StoredKernel::name || sequence_.step(s).has_workspace()) continue;
    FieldWriter written;
    launch.step->write(written, launch.entry);
    const auto fields = FieldReader(written.bytes()).take<KernelFields>();
    if (!launch.entry.units.is_constant() || !is_known(launch.entry.sets) ||
        !std::ranges::all_of(fields.parameters, is_known))
      continue;
    std::size_t reads = 0, makes = 0;
    bool once = true;
    for (std::size_t place = sequence_.begin_of(s); once && place < sequence_.end_of(s); ++place) {
      const int number = sequence_.table()[place];
      const PlanBuffer& buffer = plan.buffers[static_cast<std::size_t>(number)];
      const bool writes = sequence_.writes(place);
      once = buffer.elements.is_constant() &&
             (writes ? buffer.kind == PlanBuffer::Kind::temporary && !buffer.host &&
                           writers[static_cast<std::size_t>(number)] == 1
                     : is_result(number) || buffer.kind == PlanBuffer::Kind::constant ||
                           (buffer.kind == PlanBuffer::Kind::argument && constant_of(plan, buffer) != none));
      if (once) (writes ? makes : reads) += bytes_of(buffer);
    }
    if (!once || makes == 0 || makes > 2 * reads) continue;
    done_once_[s] = true;
    for (std::size_t place = sequence_.begin_of(s); place < sequence_.end_of(s); ++place)
      if (const int number = sequence_.table()[place]; sequence_.writes(place))
        results_.push_back({number, bytes_of(plan.buffers[static_cast<std::size_t>(number)])});
  }
}

void Constants::find_operands(const Plan& plan) {
  for (std::size_t s = 0; s < sequence_.steps(); ++s) {
    const auto* const step = dynamic_cast<const PackingStep*>(&sequence_.step(s));
    if (!step) continue;
    const std::size_t table = sequence_.begin_of(s);
    for (std::size_t place = table; place < sequence_.end_of(s); ++place) {
      const int number = sequence_.table()[place];
      const PlanBuffer& buffer = plan.buffers[static_cast<std::size_t>(number)];
      const std::size_t constant = buffer.kind == PlanBuffer::Kind::argument ? constant_of(plan, buffer) : none;
      if (!is_result(number) && constant == none) continue;
      if (const std::size_t bytes = step->packed_bytes(place - table); bytes > 0)
        operands_.push_back({step, table, place - table, constant, bytes, step->packed_as(place - table)});
    }
  }
}

const Constants::Kept* Constants::find_other(std::shared_ptr<const Kept>& own, const ConstantKeys& constants,
                                             const StepCall& call, bool& is_new) {
  const auto equal = [&](const std::vector<const void*>& keys) { return std::ranges::equal(keys, constants.keys); };
  const auto give_up = [&] {  // calls go on without
    gives_up_ = true;
    now_.reset();
    is_new = true;
  };
  own.reset();
  const Claim claim(taken_);
  if (!claim || gives_up_) return nullptr;
  if (now_ && equal(now_->keys)) {
    seen_.clear();  // who has two sets of values in turn keeps one of them
    own = now_;
    return own.get();
  }
  try {
    if (equal(seen_)) {
      now_ = make(constants, call);
      own = now_;
      is_new = true;
    } else {
      seen_.assign(constants.keys.begin(), constants.keys.end());
    }
  } catch (const OutOfMemory&) {
    give_up();
  } catch (const std::bad_alloc&) {
    give_up();
  }
  return own.get();
}

std::size_t Constants::bytes() {
  const Claim claim(taken_);
  std::size_t bytes = 0;
  if (!claim || !now_) return 0;
  for (const Operand& operand : operands_) bytes += operand.bytes;
  for (const Result& result : results_) bytes += result.bytes;
  return bytes;
}

std::shared_ptr<const Constants::Kept> Constants::make(const ConstantKeys& constants, const StepCall& call) const {
  auto kept = std::make_shared<Kept>();
  kept->keys.assign(constants.keys.begin(), constants.keys.end());
  for (std::size_t i = 0; i < constants_; ++i) kept->memory.push_back(constants.hold(constants.context, i));
  std::vector<void*> pointers(call.pointers, call.pointers + sequence_.pointers());
  for (const Result& result : results_) {
    const std::shared_ptr<Storage> memory(allocate(device_, result.bytes, call.queue), release);
    for (std::size_t place = 0; place < pointers.size(); ++place)
      if (sequence_.table()[place] == result.buffer) {
        pointers[place] = memory->data;
        kept->made.emplace_back(place, memory->data);
      }
    kept->blocks.push_back(memory.get());
    kept->memory.push_back(memory);
  }
  if (call.queue) note_work(call.queue, {kept->blocks});
  for (std::size_t s = 0; s < sequence_.steps(); ++s)
    if (done_once_[s]) sequence_.step(s).run({pointers.data() + sequence_.begin_of(s), call.numbers, {}, call.queue});
  kept->packed.resize(sequence_.pointers());
  for (const Operand& operand : operands_) {
    const bool shares = operand.constant != none;
    const void* const key = shares ? constants.keys[operand.constant] : nullptr;
    std::shared_ptr<const PackedOperand> found = shares ? shared_operands().find(key, operand.how) : nullptr;
    if (!found) {
      const std::shared_ptr<PackedOperand> made(new PackedOperand{shares ? kept->memory[operand.constant] : nullptr,
                                                                  {allocate(device_, operand.bytes), release}});
      const StepCall own{pointers.data() + operand.table, call.numbers, {}, call.queue};
      operand.step->pack(operand.buffer, own, static_cast<std::byte*>(made->memory->data));
      found = shares ? shared_operands().add(key, operand.how, made) : made;
    }
    kept->packed[operand.table + operand.buffer] = found->data();
    kept->memory.push_back(std::move(found));
  }
  return kept;
}

}  // namespace weft::runtime
