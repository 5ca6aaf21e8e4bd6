// What the copies of one compiled function share: its specializations. In: a call's key. Out: the specialization whose
// guards hold, or a new one. Invariant: a reader takes no lock; what it reads stays alive while its call is in flight.
#pragma once
#include <deque>
#include <mutex>

#include "base/cache_lines.hpp"
#include "base/fork.hpp"
#include "base/hash.hpp"
#include "record/random.hpp"
#include "trace/registry.hpp"
#include "trace/specialization.hpp"
#include "weft/stance.hpp"

namespace weft::detail {

// A list of specializations, never changed once published.
struct Snapshot {
  std::vector<std::shared_ptr<const Specialization>> list;
  mutable std::atomic<std::size_t> last{0};  // the one that was used last
};

// Counts the calls that may read a snapshot.
class Readers {
 public:
  using Count = std::atomic<std::uint64_t>;
  // A call begins on the thread of this number; it must end by leave() of what this returns.
  Count* enter(std::uint64_t thread) {
    Count& own = counts_.of(thread);
    own.fetch_add(1);
    return &own;
  }
  void leave(Count* count) { count->fetch_sub(1, std::memory_order_release); }
  // Those that began before this and have not ended, and perhaps some that began meanwhile.
  std::uint64_t count() const;

 private:
  ThreadSlots<Count> counts_;
};

struct Function {
  std::atomic<std::uint32_t> references{1};
  CompileOptions options;  // the backend is that of `chosen`
  ChosenBackend chosen;
  Loc loc;
  const std::uint64_t eager_id = new_id();  // of all specializations beyond the recompile limit, which run eagerly

  std::atomic<const Snapshot*> current{nullptr};
  Readers readers;
  mutable std::atomic<std::uint64_t> tick{0};  // counts changes of the specialization in use, for the order of use

  RecursiveMutex mutex;                                   // of everything below, and of tracing
  std::deque<std::unique_ptr<const Snapshot>> snapshots;  // the current one and those that calls in flight may read
  std::size_t compiled = 0;                               // specializations made so far
  std::size_t uncounted = 0;                              // of these, those that recompile_limit does not count
  std::vector<Guards> outgrown;  // of trees that were dropped at most_branches and are not compiled again yet
  std::size_t derivatives = 0;   // of calls inside levels, but the first of each call: recompile_limit counts them
  std::size_t regrown = 0;       // of those compiled, trees that were outgrown: recompile_limit does not count them
  std::size_t most_branches = 1 << 17;  // of one tree: it bounds memory; a test may lower it
  std::vector<std::string> recompile_reasons;
  bool limit_reported = false;
  std::vector<Digest> met;      // by Stance::eager_then_compile: kinds of arguments that were called with once
  std::vector<Digest> joining;  // kinds of arguments of which a differentiated call runs as a plain one
  // The last error of kernels that were made in the background; empty for none. Under LockOrder::functions.
  std::string background_failure;

  const Specialization* find(const Words& words) const;
  void add(std::shared_ptr<const Specialization> made);
  // Calls to come do not find it any more; those in flight may run it. Returns it, or null where it is in no list.
  std::shared_ptr<const Specialization> drop(const Specialization& stale);

 private:
  void publish(std::vector<std::shared_ptr<const Specialization>> list);
};

// "compile at file:line", as it is named to people.
std::string title(const Function& function);
// With the passes of a set (trace/registry.hpp).
FunctionOptions options_of(const Function& function, std::uint64_t passes);

// Counts the calls of specializations for Check. The first 64 of each are counted one by one. From then on each thread
// keeps its own count, and adds it to the common one when it is 64: threads that call at once do not wait for each
// other.
class CallCounter {
 public:
  // Which one the next call is, about: exactly, where one thread calls.
  std::uint64_t next(const Specialization& specialization) const {
    const Own& own = own_[specialization.id % std::size(own_)];
    const bool known = own.id == specialization.id;
    return (known ? own.common + own.calls : specialization.calls.load(std::memory_order_relaxed)) + 1;
  }
  // Counts it.
  std::uint64_t count(const Specialization& specialization) {
    Own& own = own_[specialization.id % std::size(own_)];
    if (own.id != specialization.id) [[unlikely]] {
      const std::uint64_t common = specialization.calls.load(std::memory_order_relaxed);
      if (common < batch) {
        specialization.calls.store(common + 1, std::memory_order_relaxed);
        return common + 1;
      }
      own = {specialization.id, 0, common};
    }
    if (++own.calls == batch) {
      own.common = specialization.calls.fetch_add(batch, std::memory_order_relaxed) + batch;
      own.calls = 0;
    }
    return own.common + own.calls;
  }

 private:
  static constexpr std::uint64_t batch = 64;
  struct Own {
    std::uint64_t id = 0, calls = 0, common = 0;  // calls since then
  };
  Own own_[8];  // by Specialization::id
};

// A thread's buffers for one call; kept for the next one.
struct alignas(cache_lines) Scratch {
  LeafList arguments, results;
  Words words;
  LineVector<std::int64_t> symbols;
  LineVector<Tensor> pending, values, outputs;
  LineVector<void*> argument_pointers, result_pointers;
  LineVector<std::uint64_t> numbers;                // constants that have no memory of their own
  LineVector<Storage*> held;                        // argument copies, released when the call ends
  LineVector<Storage*> blocks;                      // of arguments and results on a device
  std::shared_ptr<const Specialization> temporary;  // in no list (beyond the recompile limit, dropped): for this call
  LineVector<const LeafRun*> runs;                  // of the arguments, by address
  LineVector<std::uint8_t> overlaps;                // an argument each: shares an object with another argument
  // The way that the call has taken through the tree: branches, the outcome of each but the last, and what the last
  // decision's segment kept.
  LineVector<const Branch*> path;
  LineVector<std::int64_t> outcomes;
  LineVector<Tensor> kept;
  std::int64_t rounds = 1;  // that the next segment may run
  std::int64_t answers[2];  // of the last segment: how many rounds it has run, and its decision
  HeldGenerator generator;  // the default generator, where the call draws from it
  Tensor generator_state;   // its state as the call has read it
  // Of a resumable function, whose code runs in each call: the arguments' tensors meanwhile, the value that was read
  // last, and what the function gives besides tensors.
  std::vector<Tensor> originals;
  Tensor asked;
  std::vector<std::int64_t> counts;  // sizes that depend on values, in the order of their symbols
  bool resumed = false;
  std::uint64_t level = UINT64_MAX;  // where the levels around the call began; of a question none
  bool differentiated = false;       // an argument depends on a variable of a level around the call
  std::shared_ptr<void> prototype;
  std::vector<TraceResult::Numbers> state_numbers;
  std::optional<CallLayout> layout;  // see CallContext::layout
  CallCounter counter;
  const std::uint64_t thread = this_thread();
  Readers::Count* reader = nullptr;  // in which the call is counted
  void clear();
};

// Nested calls of a thread take one each. Throws Error where there are too many.
Scratch* take_scratch(const Function& function, Loc loc);
void give_back(Scratch* scratch) noexcept;

struct CallContext {
  Function& function;
  const CallSignature& signature;
  TraceBody body;
  void* body_context;
  Loc loc;
  Scratch& scratch;
  Stance stance;
  // Made when it is asked for first.
  const CallLayout& layout() const {
    if (!scratch.layout) scratch.layout.emplace(signature, scratch.arguments, scratch.words);
    return *scratch.layout;
  }
};

// That of the thread, else of the process.
Stance stance();

// How many specializations this thread has made.
inline thread_local constinit std::uint64_t compilations_of_thread = 0;

// What a call asks for which nothing compiled fits. The function's mutex is held.
// Whether the stance lets it compile; false: it runs as a plain one. `what`: of the call, for which eager_then_compile
// counts; `reason`: why nothing fits.
bool may_compile(CallContext call, Digest what, const std::string& reason);
// Why recompile_limit forbids it; empty where it does not. Warns of it once. Throws under OnFailure::raise.
std::string beyond_limit(CallContext call, const std::string& reason);
void note_recompilation(Function& function, const std::string& reason);

// Traces and compiles for this call. The function's mutex is held while it traces, not while kernels are made. A
// function that decides has then gone the whole way: the scratch says which. Null where the stance wants a plain call.
const Specialization* specialize(CallContext call);
// The call has come to an outcome that has no branch yet: traces again along its way, goes on from the values that were
// kept, and adds what follows to the tree. The scratch's way then goes on, to the end if this thread traced. Returns
// the specialization that the way is in, a new one where the function turns out to be resumable; null where the stance
// wants a plain call.
const Specialization* extend(CallContext call, const Specialization& specialization);
// Makes the kernels, or has them made. Nobody holds the function's mutex for this.
void make_kernels(CallContext call, const Specialization& specialization, std::shared_ptr<KernelJob> job);
// Traces again, the same way. Where the function does something else than when it was compiled, or throws, the
// specialization is dropped, and that is the error.
void check_again(CallContext call, const Specialization& specialization);

}  // namespace weft::detail
