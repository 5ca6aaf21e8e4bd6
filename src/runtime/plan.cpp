// The executor of launch plans on the host. A call takes a frame (a pointer table for every launch, the values of all
// sizes, the arena) from the plan's spare ones, fills in what the call supplies, and walks the launches. On the hit
// path that is a handful of stores a launch: nothing from the heap, no lock but that of the process's free lists for a
// workspace that the thread's lists do not have, no expression evaluated twice for the same symbols.
#include "runtime/plan.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/fail.hpp"
#include "base/seeded_bug.hpp"
#include "runtime/cuda/plan.hpp"
#include "runtime/parallel.hpp"
#include "runtime/plan_matmul.hpp"
#include "runtime/scatter.hpp"

namespace weft::runtime {

namespace {

// Estimated nanoseconds that a piece of a parallel loop must be worth. Opening a region costs 0.6 us while the threads
// are awake (docs/decisions/0001-compiler-driving.md).
constexpr std::int64_t piece_work = 8000;

using Range = NumberTable::Range;

struct PreparedLaunch {
  const Launch* launch = nullptr;
  std::size_t table = 0;  // of its pointers, in Frame::pointers
  Range parameters;
  Range units, work;  // kernel
  Range sizes;        // scatter_add: rows, count, width
  PlanMatmul matmul;
};

using Owned = std::unique_ptr<Storage, void (*)(Storage*)>;

// A pointer that each call supplies.
struct Patch {
  std::size_t at;
  bool is_result;
  int index;
};

struct Frame {
  std::vector<void*> pointers;
  std::vector<std::int64_t> numbers;
  std::vector<std::int64_t> symbols;  // that `numbers` and the arena's layout were computed for
  bool computed = false;
  Storage* arena = nullptr;
  std::size_t workspace_bytes = 0;  // what the most demanding product wants on `threads`
  int threads = 0;
  std::span<std::byte> workspace;  // of the call

  Frame() = default;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    if (arena) release(arena);
  }
};

class HostPlan final : public PreparedPlan {
 public:
  explicit HostPlan(const Plan& plan) {
    // A copy: the plan may move, and its launches are read on every call.
    launches_ = plan.launches;
    library_ = plan.library;
    device_ = plan.device;
    for (const std::vector<std::byte>& constant : plan.constants) {
      constants_.emplace_back(allocate(device_, constant.size()), release);
      if (!constant.empty()) std::memcpy(constants_.back()->data, constant.data(), constant.size());
    }
    buffers_ = plan.buffers;
    argument_count_ = static_cast<std::size_t>(plan.argument_count);
    result_count_ = static_cast<std::size_t>(plan.result_count);
    symbol_count_ = static_cast<std::size_t>(plan.symbol_count);
    arena_bytes_ = numbers_.add({plan.arena_bytes});
    for (const PlanBuffer& buffer : buffers_) offsets_.push_back(numbers_.add({buffer.offset}));
    for (const Launch& launch : launches_) prepare(launch);
  }
  HostPlan(const HostPlan&) = delete;
  HostPlan& operator=(const HostPlan&) = delete;
  ~HostPlan() override {
    for (std::atomic<Frame*>& spare : spares_) delete spare.load();
  }

  void run(std::span<void* const> arguments, std::span<void* const> results, std::span<const std::int64_t> symbols,
           Queue* queue, std::span<Storage* const> blocks) override {
    WEFT_CHECK(
        arguments.size() == argument_count_ && results.size() == result_count_ && symbols.size() == symbol_count_,
        "the plan was made for ", argument_count_, " arguments, ", result_count_, " results and ", symbol_count_,
        " symbols");
    const Loan loan(*this);
    Frame& frame = *loan.frame;
    const bool same = seeded(SeededBug::sizes_of_first_call_kept) ||
                      std::equal(symbols.begin(), symbols.end(), frame.symbols.begin());
    if (!frame.computed || !same) compute(frame, symbols);
    if (has_products_ && frame.threads != num_threads()) compute_workspace(frame);
    // Of one call, from the free lists. Here and not where it is used: no launch has written yet.
    const Owned workspace(frame.workspace_bytes ? allocate(device_, frame.workspace_bytes, queue) : nullptr, release);
    frame.workspace = {workspace ? static_cast<std::byte*>(workspace->data) : nullptr, frame.workspace_bytes};
    if (queue) [[unlikely]] {
      Storage* const own[] = {frame.arena, workspace.get()};
      note_work(queue, {blocks, own});
    }
    for (const Patch& patch : patches_)
      frame.pointers[patch.at] = patch.is_result ? results[static_cast<std::size_t>(patch.index)]
                                                 : arguments[static_cast<std::size_t>(patch.index)];
    for (const PreparedLaunch& launch : prepared_) (this->*steps[static_cast<int>(launch.launch->kind)])(launch, frame);
  }

 private:
  // A frame for one call, given back when it ends, also by an exception.
  struct Loan {
    HostPlan& plan;
    Frame* frame;
    explicit Loan(HostPlan& owner) : plan(owner), frame(owner.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { plan.give_back(frame); }
  };

  Frame* take() {
    for (std::atomic<Frame*>& spare : spares_)
      if (spare.load(std::memory_order_relaxed))
        if (Frame* frame = spare.exchange(nullptr, std::memory_order_acquire)) return frame;
    auto frame = std::make_unique<Frame>();
    frame->numbers = numbers_.constants();
    frame->pointers.resize(table_.size());
    frame->symbols.resize(symbol_count_);
    return frame.release();
  }
  void give_back(Frame* frame) {
    for (std::atomic<Frame*>& spare : spares_) {
      Frame* empty = nullptr;
      if (spare.compare_exchange_strong(empty, frame, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    delete frame;
  }

  void prepare(const Launch& launch) {
    PreparedLaunch step;
    step.launch = &launch;
    step.table = table_.size();
    for (const int buffer : launch.buffers) {
      const PlanBuffer& it = buffers_.at(static_cast<std::size_t>(buffer));
      if (it.kind == PlanBuffer::Kind::argument || it.kind == PlanBuffer::Kind::result)
        patches_.push_back({table_.size(), it.kind == PlanBuffer::Kind::result, it.index});
      table_.push_back(buffer);
    }
    switch (launch.kind) {
      case Launch::Kind::kernel:
        WEFT_CHECK(launch.function, "kernel ", launch.name, " has not been found in the plan's library");
        step.units = numbers_.add({launch.units});
        step.work = numbers_.add({launch.work});
        step.parameters = numbers_.add(launch.parameters);
        break;
      case Launch::Kind::matmul:
        WEFT_CHECK(launch.buffers.size() == 3, launch.name);
        step.matmul = PlanMatmul(launch.matmul, numbers_);
        has_products_ = true;
        break;
      case Launch::Kind::scatter_add:
        WEFT_CHECK(launch.buffers.size() == 3, launch.name);
        step.sizes = numbers_.add({launch.rows, launch.count, launch.width});
        break;
      case Launch::Kind::check: WEFT_CHECK(launch.buffers.size() == 1, launch.name); break;
    }
    prepared_.push_back(step);
  }

  // Everything that depends on the symbols: numbers, the arena, and the pointers into it and to constants.
  void compute(Frame& frame, std::span<const std::int64_t> symbols) {
    frame.computed = false;
    numbers_.evaluate(symbols, frame.numbers);
    const auto bytes = static_cast<std::size_t>(frame.numbers[arena_bytes_.begin]);
    if (bytes > 0 && (!frame.arena || frame.arena->bytes < bytes)) {
      if (frame.arena) release(std::exchange(frame.arena, nullptr));
      frame.arena = allocate(device_, bytes);
    }
    for (std::size_t i = 0; i < table_.size(); ++i) {
      const auto index = static_cast<std::size_t>(table_[i]);
      const PlanBuffer& buffer = buffers_[index];
      if (buffer.kind == PlanBuffer::Kind::constant)
        frame.pointers[i] = constants_[static_cast<std::size_t>(buffer.index)]->data;
      if (buffer.kind == PlanBuffer::Kind::temporary)
        frame.pointers[i] =
            frame.arena ? static_cast<std::byte*>(frame.arena->data) + frame.numbers[offsets_[index].begin] : nullptr;
    }
    std::copy(symbols.begin(), symbols.end(), frame.symbols.begin());
    frame.threads = 0;
    frame.computed = true;
  }

  void compute_workspace(Frame& frame) {
    frame.workspace_bytes = 0;
    for (const PreparedLaunch& step : prepared_)
      if (step.launch->kind == Launch::Kind::matmul)
        frame.workspace_bytes = std::max(frame.workspace_bytes, matmul_workspace(step.matmul.product(frame.numbers)));
    frame.threads = num_threads();
  }

  // ---- steps
  // ---------------------------------------------------------------------------------------------------------
  void run_kernel(const PreparedLaunch& step, Frame& frame) {
    struct Call {
      KernelFunction function;
      void* const* buffers;
      const std::int64_t* parameters;
    } call{step.launch->function, frame.pointers.data() + step.table, frame.numbers.data() + step.parameters.begin};
    const std::int64_t units = frame.numbers[step.units.begin], work = frame.numbers[step.work.begin];
    if (units <= 0) return;
    if (work < 2 * piece_work || units == 1) return call.function(call.buffers, call.parameters, 0, units);
    const std::int64_t grain = std::max<std::int64_t>(1, units / (work / piece_work));
    parallel_for(
        0, units, grain,
        [](void* context, std::int64_t begin, std::int64_t end) {
          const Call& it = *static_cast<const Call*>(context);
          it.function(it.buffers, it.parameters, begin, end);
        },
        &call);
  }

  void run_matmul(const PreparedLaunch& step, Frame& frame) {
    void* const* pointers = frame.pointers.data() + step.table;
    const auto operand = [&](std::size_t i) { return step.matmul.first(i, pointers[i], frame.numbers); };
    matmul(step.matmul.product(frame.numbers), operand(0), operand(1), operand(2), frame.workspace);
  }

  void run_scatter_add(const PreparedLaunch& step, Frame& frame) {
    const std::int64_t* size = frame.numbers.data() + step.sizes.begin;
    void* const* pointers = frame.pointers.data() + step.table;
    const DType dtype = buffers_[static_cast<std::size_t>(step.launch->buffers[2])].dtype;
    scatter_add(dtype, {size[0], size[1], size[2]}, static_cast<const std::int64_t*>(pointers[0]), pointers[1],
                pointers[2]);
  }

  void run_check(const PreparedLaunch& step, Frame& frame) {
    if (!*static_cast<const unsigned char*>(frame.pointers[step.table]) && !seeded(SeededBug::check_not_run))
      throw Error(step.launch->message.c_str());
  }

  using Run = void (HostPlan::*)(const PreparedLaunch&, Frame&);
  static constexpr Run steps[] = {&HostPlan::run_kernel, &HostPlan::run_matmul, &HostPlan::run_scatter_add,
                                  &HostPlan::run_check};  // by Launch::Kind

  std::vector<Launch> launches_;
  std::vector<Owned> constants_;
  std::vector<PlanBuffer> buffers_;
  std::shared_ptr<Library> library_;
  Device device_;
  std::size_t argument_count_ = 0, result_count_ = 0, symbol_count_ = 0;
  NumberTable numbers_;
  Range arena_bytes_;
  std::vector<Range> offsets_;  // by buffer
  std::vector<int> table_;      // the buffer of each pointer
  std::vector<Patch> patches_;
  std::vector<PreparedLaunch> prepared_;
  bool has_products_ = false;
  std::atomic<Frame*> spares_[8] = {};  // frames of calls that have ended; more calls at once make and drop their own
};

}  // namespace

void prepare(Plan& plan) {
  if (plan.device.type == Device::Type::cuda)
    plan.prepared = cuda::prepare(plan);
  else
    plan.prepared = std::make_shared<HostPlan>(plan);
}

void run(const Plan& plan, std::span<void* const> arguments, std::span<void* const> results,
         std::span<const std::int64_t> symbols, Queue* queue, std::span<Storage* const> blocks) {
  WEFT_CHECK(plan.prepared, "the plan has not been prepared");
  WEFT_CHECK(!queue || queue->device == plan.device, "a queue of another device than the plan's");
  plan.prepared->run(arguments, results, symbols, queue, blocks);
}

}  // namespace weft::runtime
