// What the copies of one compiled function share: its specializations. In: a call's key. Out: the specialization whose
// guards hold. Invariant: a reader takes no lock; what it reads stays alive while its call is in flight.
#pragma once
#include <deque>
#include <mutex>

#include "base/cache_lines.hpp"
#include "base/device_target.hpp"
#include "base/fork.hpp"
#include "base/hash.hpp"
#include "trace/registry.hpp"
#include "trace/specialization.hpp"

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

struct CallContext;

struct Function {
  std::atomic<std::uint32_t> references{1};
  CompileOptions options;  // the backend is that of `chosen`
  ChosenBackend chosen;
  std::optional<InstructionSet> isa;  // that its kernels are for; nothing: this machine's. Another's are not called
  Loc loc;
  std::string name;  // of a function of a package, which is neither traced nor compiled; empty: it is of compile()
  // Of such a one: throws why nothing that the package holds fits a call.
  std::function<void(const CallContext&)> refuse;
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
  // Of a device, for a package: its kernels are not called. Arguments that all lie on the host are taken as if their
  // tensors lay there (moves_to_device). Set before the function is called.
  const DeviceTarget* target = nullptr;

  const Specialization* find(const Words& words) const;
  void add(std::shared_ptr<const Specialization> made);
  // Calls to come do not find it any more; those in flight may run it. Returns it, or null where it is in no list.
  std::shared_ptr<const Specialization> drop(const Specialization& stale);

 private:
  void publish(std::vector<std::shared_ptr<const Specialization>> list);
};

// "compile at file:line", as it is named to people; of a function of a package its name.
std::string title(const Function& function);
// With the passes of a set (trace/registry.hpp).
FunctionOptions options_of(const Function& function, std::uint64_t passes);
// The options with the level that their mode asks for. Throws Error where it asks for another than they have.
CompileOptions with_level_of_mode(CompileOptions options, Loc loc);
void note_recompilation(Function& function, const std::string& reason);

}  // namespace weft::detail
