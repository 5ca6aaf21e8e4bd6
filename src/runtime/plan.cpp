// The executor of launch plans, on the host and on devices. A call takes a frame (a pointer table for every step, the
// values of all sizes, the arena) from the plan's spare ones, fills in what the call supplies, and walks the steps. On
// the hit path that is a handful of stores a step, and no expression evaluated twice for the same symbols. On the host
// nothing comes from the heap, no lock is taken, and workspaces lie in the arena or in results; on CUDA a workspace
// comes from the device's list of blocks, under its lock, as many plans share it. What lies on the host though the plan
// runs on a device (Scalars, a generator's state) is staged: copied to the device before the first step, and results
// back after the last.
#include "runtime/plan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/cache_lines.hpp"
#include "base/ending.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/named_sizes.hpp"
#include "base/options.hpp"
#include "runtime/parallel.hpp"
#include "runtime/plan_frame.hpp"
#include "runtime/plan_parts.hpp"
#include "runtime/processes/collective_step.hpp"
#include "runtime/recordings.hpp"
#include "runtime/sequence.hpp"
#include "runtime/transfer.hpp"

namespace weft::runtime {
namespace {

using Range = NumberTable::Range;
using Frame = PlanFrame;
using Owned = std::unique_ptr<Storage, void (*)(Storage*)>;

constexpr std::size_t staging_alignment = 16;
// Steps: fewer are launched as fast one by one. But a plan that reduces overhead has all of them recorded.
constexpr std::size_t least_to_record(const Plan& plan) { return plan.reduces_overhead ? 1 : 3; }

}  // namespace

class PreparedPlan {
 public:
  explicit PreparedPlan(const Plan& plan)
      : device_(entered(plan.device)),
        argument_count_(static_cast<std::size_t>(plan.argument_count)),
        result_count_(static_cast<std::size_t>(plan.result_count)),
        symbol_count_(static_cast<std::size_t>(plan.symbol_count)),
        numbers_(symbol_count_),
        sequence_(plan, numbers_, /*in_results=*/on_host()),
        constants_(plan, sequence_),
        reduces_overhead_(plan.reduces_overhead),
        pieces_{pieces_where(false, least_to_record(plan)), pieces_where(true, least_to_record(plan))} {
    for (const PlanBuffer& buffer : plan.buffers) {
      const bool is_staged = buffer.host && !is_on_host(buffer);
      staged_of_.push_back(is_staged ? static_cast<int>(staged_.size()) : -1);
      if (is_staged)
        staged_.push_back(
            {buffer.kind == PlanBuffer::Kind::result, buffer.index, buffer.dtype, numbers_.add({buffer.elements})});
    }
    if (!plan.given) return;
    believed_ = false;
    for (const auto& [dtype, elements] : plan.given->arguments) arguments_.push_back({dtype, numbers_.add({elements})});
    for (const auto& [dtype, elements] : plan.given->results) results_.push_back({dtype, numbers_.add({elements})});
  }
  PreparedPlan(const PreparedPlan&) = delete;
  PreparedPlan& operator=(const PreparedPlan&) = delete;
  ~PreparedPlan() {
    for (const auto& slot : spares_.all()) delete slot.value.load();
  }

  bool fits(std::span<const std::int64_t> symbols) const {
    std::vector<std::int64_t> numbers = numbers_.constants();
    numbers_.evaluate(symbols, numbers);
    return stays_within(numbers);
  }

  std::size_t workspace(std::span<const std::int64_t> symbols) const {
    if (!sequence_.has_workspace()) return 0;
    std::vector<std::int64_t> numbers = numbers_.constants();
    numbers_.evaluate(symbols, numbers);
    sequence_.settle(numbers);
    if (!on_host()) return sequence_.workspace(numbers);
    return sequence_.place_workspaces(numbers) - sequence_.arena_bytes(numbers);
  }

  std::size_t kept_bytes() { return constants_.bytes(); }

  // A frame for one call, given back when it ends, also by an exception.
  struct Loan {
    PreparedPlan& plan;
    Frame* frame;
    explicit Loan(PreparedPlan& owner) : plan(owner), frame(owner.take()) {}
    Loan(const Loan&) = delete;
    ~Loan() { plan.give_back(frame); }
  };
  // What a call takes. No step has written yet.
  struct Taken {
    Queue* queue;
    Loan loan;
    Owned workspace{nullptr, release};  // on a device: of one call, from the free lists

    Taken(PreparedPlan& plan, std::span<const std::int64_t> symbols, Queue* queue, std::byte* lent = nullptr)
        : queue(plan.begin_call(queue)), loan(plan) {
      WEFT_CHECK(symbols.size() == plan.symbol_count_, "the plan was made for ", plan.symbol_count_, " symbols");
      plan.fill(*loan.frame, symbols, lent);
      if (loan.frame->workspace_bytes)
        workspace.reset(allocate(plan.device_, loan.frame->workspace_bytes, this->queue));
    }
  };

  void run(const Plan& plan, Taken& taken, std::span<void* const> arguments, std::span<void* const> results,
           std::span<Storage* const> blocks, bool checks_wait, const ConstantKeys& constants) {
    WEFT_CHECK(arguments.size() == argument_count_ && results.size() == result_count_, "the plan was made for ",
               argument_count_, " arguments and ", result_count_, " results");
    Frame& frame = *taken.loan.frame;
    Queue* const queue = taken.queue;
    const Owned& workspace = taken.workspace;
    const std::span<const std::int64_t> symbols = frame.symbols;
    if (queue) [[unlikely]] {
      Storage* const own[] = {frame.arena, frame.staged, workspace.get()};
      note_work(queue, {blocks, own});
    }
    sequence_.bind(frame.pointers, arguments, results);
    if (!staged_.empty()) stage(frame, arguments, queue);
    std::byte* const scratch = workspace ? static_cast<std::byte*>(workspace->data) : nullptr;
    const Constants::Kept* const kept = constants_.any() ? kept_for(frame, constants, queue) : nullptr;
    Watch* const watch = current_watch;
    std::byte* const arena = arena_of(frame);
    const auto run_step = [&](std::size_t step, Queue* on) {
      if (kept && constants_.is_done_once(step)) return;
      const std::span workspace = on_host() ? sequence_.workspace_of(step, frame.numbers, arena, results)
                                            : std::span(scratch, frame.workspace_bytes);
      sequence_.run(step, {frame.pointers.data(), frame.numbers, workspace, on, checks_wait, watch},
                    kept ? kept->packed.data() : nullptr);
    };
    const Pieces& pieces = pieces_[checks_wait];
    const bool record = queue && pieces.any_recorded && options().cuda_graphs && !watch;
    Recordings& recordings = frame.recordings[checks_wait];
    if (record) {  // what a recording depends on besides the table: the workspace, and which steps are left out
      frame.pointers[sequence_.pointers()] = scratch;
      frame.pointers[sequence_.pointers() + 1] = kept ? this : nullptr;
    }
    const Recording* recording = record ? recordings.find(frame.pointers, symbols) : nullptr;
    const bool comes_back = record && !recording && recordings.is_worth_recording(frame.pointers, symbols);
    if (record && !recording && !comes_back) recording = move_to(frame, symbols, pieces, recordings, run_step);
    {
      const WatchedCall seen(sequence_, watch, plan, frame, checks_wait);
      try {
        auto recorded = recording ? recording->begin() : Recording::const_iterator();
        for (const Piece& piece : pieces.all) {
          if (recording && piece.is_recorded)
            (*recorded++)->replay(queue);
          else
            for (std::size_t step = piece.first; step < piece.last; ++step) run_step(step, queue);
        }
      } catch (...) {
        if (frame.host_arena) end_transfers(device_);
        throw;
      }
    }
    if (record && !recording && (comes_back || is_moving(frame, symbols, recordings)))
      record_call(frame, symbols, pieces, recordings, run_step, /*moves=*/!comes_back);
    if (!staged_.empty()) bring_back(frame, results, queue);
    if (queue && first_calls_.load(std::memory_order_relaxed) < most_first_calls) [[unlikely]] {
      first_calls_.fetch_add(1, std::memory_order_relaxed);
      wait_before_end();  // libraries ask to be told of the end when they first do something, and so does a recording
    }
  }

 private:
  // The steps of a call that somebody may look at.
  struct WatchedCall {
    Watch* const watch;
    WatchedCall(const Sequence& steps, Watch* watch, const Plan& plan, const Frame& frame, bool checks_wait)
        : watch(watch) {
      if (watch) [[unlikely]]
        watch->begin_call(plan, frame.symbols, /*waits=*/!steps.can_be_recorded(checks_wait));
    }
    WatchedCall(const WatchedCall&) = delete;
    ~WatchedCall() {
      if (watch) [[unlikely]]
        watch->end_call();
    }
  };

  static Device entered(Device device) {
    device_interface(device.type).enter(device);
    return device;
  }
  const DeviceInterface& memory() const { return device_interface(device_.type); }
  Queue* begin_call(Queue* queue) const {
    if (on_host()) return queue;
    Queue* const own = memory().begin_call(device_);
    WEFT_CHECK(!queue || queue == own, "a device has one queue");
    return own;
  }
  bool on_host() const { return device_.type == Device::Type::cpu; }

  // What a call gives, of a plan that is not believed.
  struct GivenValue {
    DType dtype;
    Range elements;
  };
  bool stays_within(std::span<const std::int64_t> numbers) const {
    const auto rooms = [&](const std::vector<GivenValue>& values) {
      std::vector<Room> all;
      for (const auto& [dtype, range] : values) {
        const std::int64_t elements = numbers[range.begin];
        const bool good = Reach::is_size(elements);
        all.push_back({good ? static_cast<std::int64_t>(storage_bytes(dtype, elements)) : 0});
      }
      return all;
    };
    return believed_ || sequence_.fits(numbers, rooms(arguments_), rooms(results_));
  }

  Frame* take() {
    for (std::size_t i = 0; i < spares_.count(); ++i)
      if (std::atomic<Frame*>& spare = spares_.of(this_thread() + i); spare.load(std::memory_order_relaxed))
        if (Frame* frame = spare.exchange(nullptr, std::memory_order_acquire)) return frame;
    auto frame = std::make_unique<Frame>(reduces_overhead_);
    frame->numbers = numbers_.constants();
    frame->pointers.resize(sequence_.pointers() + 2);  // two more that recordings are told apart by
    frame->symbols.resize(symbol_count_);
    frame->staged_at.resize(staged_.size());
    return frame.release();
  }
  void give_back(Frame* frame) {
    for (std::size_t i = 0; i < spares_.count(); ++i) {
      Frame* empty = nullptr;
      if (spares_.of(this_thread() + i)
              .compare_exchange_strong(empty, frame, std::memory_order_release, std::memory_order_relaxed))
        return;
    }
    delete frame;
  }

  // What was made of the call's constants, whose results are then in the table of pointers; null: nothing.
  const Constants::Kept* kept_for(Frame& frame, const ConstantKeys& constants, Queue* queue) {
    bool is_new = false;
    const Constants::Kept* const kept =
        constants_.find(frame.kept, constants, {frame.pointers.data(), frame.numbers, {}, queue}, is_new);
    if (queue && kept) note_work(queue, {kept->blocks});
    // Other frames give up what it replaces.
    for (std::size_t i = 0; is_new && i < spares_.count(); ++i)
      if (std::atomic<Frame*>& spare = spares_.of(i); Frame* const other = spare.exchange(nullptr)) {
        other->kept.reset();
        give_back(other);
      }
    if (frame.points_to_kept && !kept)
      sequence_.place(frame.pointers, frame.numbers, arena_of(frame), at(frame.host_arena, 0));
    frame.points_to_kept = kept != nullptr;
    for (std::size_t i = 0; kept && i < kept->made.size(); ++i)
      frame.pointers[kept->made[i].first] = kept->made[i].second;
    return kept;
  }

  // How a call's steps are divided where its checks wait, or do not.
  struct Pieces {
    std::vector<Piece> all;
    bool any_recorded = false;
  };
  // A copy that one step begins and another waits for is in one piece with both.
  [[gnu::cold]] Pieces pieces_where(bool checks_wait, std::size_t least) const {
    std::vector<bool> can;
    for (std::size_t step = 0; step < sequence_.steps(); ++step)
      can.push_back(!on_host() && sequence_.step(step).can_be_recorded(checks_wait));
    const auto is_recorded = [](const Piece& piece) { return piece.is_recorded; };
    Pieces pieces{divide(can, least)};
    if (sequence_.has_transfers() && pieces.all.size() > 1) pieces.all = {{0, can.size(), false}};
    pieces.any_recorded = std::ranges::any_of(pieces.all, is_recorded);
    return pieces;
  }

  // The call has been done: that it can't be recorded is no error of it.
  template <class RunStep>
  [[gnu::cold]] void record_call(Frame& frame, std::span<const std::int64_t> symbols, const Pieces& pieces,
                                 Recordings& recordings, const RunStep& run_step, bool moves) const {
    try {
      std::vector<std::vector<Touched>> touched = sequence_.touched(frame.pointers, frame.numbers);
      for (std::size_t step = 0; frame.points_to_kept && step < touched.size(); ++step)
        if (constants_.is_done_once(step)) touched[step] = {by_idle};
      Recording recording;
      for (const Piece& piece : pieces.all) {
        if (!piece.is_recorded) continue;
        const auto put = [&](std::size_t step, Queue* on) { run_step(piece.first + step, on); };
        const std::span own = std::span(touched).subspan(piece.first, piece.last - piece.first);
        recording.push_back(memory().record(device_, assign_lanes(own), Work(put, moves)));
      }
      if (moves)
        recordings.add_moving(frame.pointers, symbols, std::move(recording));
      else
        recordings.add(frame.pointers, symbols, std::move(recording));
    } catch (const Error& error) {
      recordings.stop();
      logging::warn_once(std::string("a call is not replayed as CUDA graphs: ") + error.what());
    }
  }

  // Steps whose nodes are changed for a call; each takes about as long as two launches.
  std::size_t most_moved() const { return sequence_.steps() / 4; }
  // Whether calls have the same sizes and differ in where few steps' values lie.
  [[gnu::cold]] bool is_moving(const Frame& frame, std::span<const std::int64_t> symbols,
                               Recordings& recordings) const {
    if (sequence_.has_transfers() || sequence_.is_collective() || most_moved() == 0) return false;
    const std::vector<void*> before = recordings.note_missed(frame.pointers, symbols);
    if (before.empty() || before.back() != frame.pointers.back()) return false;
    const std::size_t moved = sequence_.moved_steps(before, frame.pointers).size();
    return moved > 0 && moved <= most_moved();
  }
  // The recording that moves, once its steps have this call's pointers; null where they can't have them.
  template <class RunStep>
  [[gnu::cold]] const Recording* move_to(Frame& frame, std::span<const std::int64_t> symbols, const Pieces& pieces,
                                         Recordings& recordings, const RunStep& run_step) const {
    Recordings::Moving* const moving = recordings.moving(symbols);
    if (!moving || moving->pointers.back() != frame.pointers.back()) return nullptr;  // other steps are left out
    if (!sequence_.share_alike(moving->pointers, frame.pointers, frame.numbers)) return nullptr;
    const std::vector<std::size_t> moved = sequence_.moved_steps(moving->pointers, frame.pointers);
    if (moved.size() > most_moved()) return nullptr;
    try {
      auto piece_of_recording = moving->recording.begin();
      for (const Piece& piece : pieces.all) {
        if (!piece.is_recorded) continue;
        std::vector<std::size_t> own;
        for (const std::size_t step : moved)
          if (step >= piece.first && step < piece.last) own.push_back(step - piece.first);
        const auto put = [&](std::size_t step, Queue* on) { run_step(piece.first + step, on); };
        RecordedWork& work = **piece_of_recording++;
        if (!own.empty() && !work.change(own, Work(put))) return recordings.stop_moving(), nullptr;
      }
    } catch (const Error&) {  // who launches the steps is told
      recordings.stop_moving();
      return nullptr;
    }
    moving->pointers.assign(frame.pointers.begin(), frame.pointers.end());
    recordings.note_moved();
    return &moving->recording;
  }

  std::size_t bytes_of(const StagedValue& value, const Frame& frame) const {
    return storage_bytes(value.dtype, frame.numbers[value.elements.begin]);
  }
  void grow(Storage*& storage, std::size_t bytes, bool on_host = false) const {
    if (bytes == 0 || (storage && storage->bytes >= bytes)) return;
    if (storage) release(std::exchange(storage, nullptr));
    storage = on_host ? allocate_on_host(device_, bytes) : allocate(device_, bytes);
  }
  static std::byte* arena_of(const Frame& frame) { return frame.lent ? frame.lent : at(frame.arena, 0); }
  static std::byte* at(const Storage* storage, std::int64_t offset) {
    return storage ? static_cast<std::byte*>(storage->data) + offset : nullptr;
  }

  void fill(Frame& frame, std::span<const std::int64_t> symbols, std::byte* lent) {
    const bool same = std::equal(symbols.begin(), symbols.end(), frame.symbols.begin()) && lent == frame.lent;
    frame.lent = lent;
    if (!frame.computed || !same || (sequence_.has_workspace() && frame.threads != num_threads()))
      compute(frame, symbols);
  }
  // Everything that depends on the symbols, and of workspaces on the threads: numbers, the arena, what is staged, and
  // the pointers into these and to constants.
  void compute(Frame& frame, std::span<const std::int64_t> symbols) {
    frame.computed = false;
    std::copy(symbols.begin(), symbols.end(), frame.symbols.begin());
    numbers_.evaluate(frame.symbols, frame.numbers);
    if (!stays_within(frame.numbers))
      throw Error("[run] a step of the plan leaves its memory: the file that it is from was forged, or is damaged");
    std::size_t arena = sequence_.arena_bytes(frame.numbers);
    if (sequence_.has_workspace()) {
      sequence_.settle(frame.numbers);
      if (on_host())
        arena = sequence_.place_workspaces(frame.numbers);
      else
        frame.workspace_bytes = sequence_.workspace(frame.numbers);
    }
    if (!frame.lent) grow(frame.arena, arena);
    grow(frame.host_arena, sequence_.host_bytes(frame.numbers), true);
    std::size_t staged = 0;
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      frame.staged_at[i] = staged;
      staged += (bytes_of(staged_[i], frame) + staging_alignment - 1) / staging_alignment * staging_alignment;
    }
    grow(frame.staged, staged);
    frame.staging.resize(staged);
    sequence_.place(frame.pointers, frame.numbers, arena_of(frame), at(frame.host_arena, 0));
    for (std::size_t i = 0; i < sequence_.pointers(); ++i)
      if (const int place = staged_of_[static_cast<std::size_t>(sequence_.table()[i])]; place >= 0)
        frame.pointers[i] =
            at(frame.staged, static_cast<std::int64_t>(frame.staged_at[static_cast<std::size_t>(place)]));
    if (const auto compare = sequence_.is_collective() ? compare_collectives.load() : nullptr)
      compare(sequence_.collectives(frame.numbers));
    frame.threads = num_threads();
    frame.computed = true;
  }

  [[gnu::cold]] void stage(Frame& frame, std::span<void* const> arguments, Queue* queue) {
    bool any = false;
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      if (staged_[i].is_result) continue;
      std::memcpy(frame.staging.data() + frame.staged_at[i], arguments[static_cast<std::size_t>(staged_[i].index)],
                  bytes_of(staged_[i], frame));
      any = true;
    }
    // The staging is not pinned: it has been read when the call returns.
    if (any && frame.staged)
      memory().copy(frame.staged->data, device_, frame.staging.data(), Device::cpu(), frame.staging.size(), queue);
  }
  [[gnu::cold]] void bring_back(Frame& frame, std::span<void* const> results, Queue* queue) {
    const auto is_result = [](const StagedValue& value) { return value.is_result; };
    if (!frame.staged || std::none_of(staged_.begin(), staged_.end(), is_result)) return;
    memory().copy(frame.staging.data(), Device::cpu(), frame.staged->data, device_, frame.staging.size(), queue);
    memory().synchronize(device_);
    for (std::size_t i = 0; i < staged_.size(); ++i)
      if (staged_[i].is_result)
        std::memcpy(results[static_cast<std::size_t>(staged_[i].index)], frame.staging.data() + frame.staged_at[i],
                    bytes_of(staged_[i], frame));
  }

  Device device_;
  std::size_t argument_count_ = 0, result_count_ = 0, symbol_count_ = 0;
  NumberTable numbers_;
  std::vector<int> staged_of_;  // by buffer: which of the staged values; -1: none
  std::vector<StagedValue> staged_;
  bool believed_ = true;
  std::vector<GivenValue> arguments_, results_;
  const Sequence sequence_;
  Constants constants_;
  bool reduces_overhead_ = false;
  const std::array<Pieces, 2> pieces_;  // where checks do not wait, and do
  // Of a plan on a device: its calls, as far as they are counted. One of them is the first, one the first that is
  // recorded, one the first that is replayed.
  static constexpr int most_first_calls = 8;
  std::atomic<int> first_calls_ = 0;
  // Frames of calls that have ended; more calls at once make and drop their own. A thread begins at its own place.
  ThreadSlots<std::atomic<Frame*>> spares_;
};

void prepare(Plan& plan) {
  const NotEnding working;
  plan.prepared = std::make_shared<PreparedPlan>(plan);
  if (plan.device.type != Device::Type::cpu) wait_before_end_of_new_libraries();  // its steps may have loaded some
}

bool fits(const Plan& plan, std::span<const std::int64_t> symbols) {
  WEFT_CHECK(plan.prepared, "the plan has not been prepared");
  return plan.prepared->fits(symbols);
}

std::size_t workspace_bytes(const Plan& plan, std::span<const std::int64_t> symbols) {
  WEFT_CHECK(plan.prepared, "the plan has not been prepared");
  return plan.prepared->workspace(symbols);
}

std::size_t kept_bytes(const Plan& plan) {
  WEFT_CHECK(plan.prepared, "the plan has not been prepared");
  return plan.prepared->kept_bytes();
}

namespace {

class PlanCall final : public BegunCall {
 public:
  PlanCall(const Plan& plan, std::span<const std::int64_t> symbols, std::byte* arena)
      : plan_(plan), taken_(*plan.prepared, symbols, nullptr, arena) {}
  void run(std::span<void* const> arguments, std::span<void* const> results,
           std::span<Storage* const> blocks) override {
    device_interface(plan_.device.type).enter(plan_.device);  // calls of other devices have begun since
    plan_.prepared->run(plan_, taken_, arguments, results, blocks, /*checks_wait=*/false, {});
  }

 private:
  const Plan& plan_;
  PreparedPlan::Taken taken_;
};

}  // namespace

std::unique_ptr<BegunCall> begin(const Plan& plan, std::span<const std::int64_t> symbols, std::byte* arena) {
  return std::make_unique<PlanCall>(plan, symbols, arena);
}

void run(const Plan& plan, std::span<void* const> arguments, std::span<void* const> results,
         std::span<const std::int64_t> symbols, Queue* queue, std::span<Storage* const> blocks, bool checks_wait,
         const ConstantKeys& constants) {
  const NotEnding working;
  if (plan.parts) [[unlikely]]
    return plan.parts->run(arguments, results, symbols, blocks);
  WEFT_CHECK(plan.prepared, "the plan has not been prepared");
  WEFT_CHECK(!queue || queue->device == plan.device, "a queue of another device than the plan's");
  try {
    PreparedPlan::Taken taken(*plan.prepared, symbols, queue);
    plan.prepared->run(plan, taken, arguments, results, blocks, checks_wait, constants);
  } catch (const Error& error) {
    if (plan.device.type != Device::Type::cpu) throw;  // perhaps of an earlier call
    rethrow_with_sizes(error, symbols);
  }
}

}  // namespace weft::runtime
