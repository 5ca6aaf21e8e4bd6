// A specialization: what one kind of arguments was compiled to: a tree of segments. A function that reads no value is
// one segment. One that does is cut where it reads: a segment computes the value, and each outcome has a branch that
// goes on. Made by traced calls, under the function's mutex; read by many at once, without a lock. Invariant: it is run
// only for calls whose words and sizes satisfy its guards.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "pipeline.hpp"
#include "record/host_values.hpp"
#include "runtime/guards.hpp"
#include "runtime/sources.hpp"
#include "trace/call_layout.hpp"

namespace weft::detail {

using runtime::Source, runtime::StateNumbers, runtime::StateTensor;

// What is written in the place of a leaf: the default generator's state, how many rounds there may be
// (trace/rounds.hpp), or a value that the segment before kept.
inline constexpr std::uint32_t generator_leaf = UINT32_MAX;
inline constexpr std::uint32_t no_leaf = UINT32_MAX;
inline constexpr std::uint32_t rounds_leaf = UINT32_MAX - 1;
constexpr std::uint32_t kept_leaf(std::size_t index) { return static_cast<std::uint32_t>(index) | 1U << 31; }
constexpr bool is_kept(std::uint32_t leaf) { return leaf < rounds_leaf && leaf >> 31; }
constexpr std::size_t kept_index(std::uint32_t leaf) { return leaf & ~(1U << 31); }

using runtime::Guards;
// Why a call does not satisfy guards: the first that fails.
Difference violation(const Guards& guards, const CallLayout& layout, const Words& call);
// How a call that does not satisfy them differs from the one that they were made for.
enum class Likeness : std::uint8_t {
  other_arguments,  // in more than sizes
  other_sizes,
  all_but_ones,  // in a size that is 0 or 1 in one of the two, or in what was decided by that
};
Likeness likeness(const Guards& guards, const CallLayout& layout, const Words& call);
// A line a guard.
std::vector<std::string> guard_texts(const Guards& guards, const CallLayout& layout);

// A value that the function reads, and what for.
struct Decision {
  Source value;
  Asked asked = Asked::boolean;
  Loc loc;
};

// What a trace gives: all of it, or up to a decision, or between two.
struct TraceResult {
  Graph graph;
  std::vector<Tensor> kept_for_derivative;  // more outputs of the graph, after those that have a source
  std::vector<std::uint32_t> inputs;        // the leaf of each input
  // A decision comes next, and there are no results yet. `kept`: what may be read after it, in the order of recording.
  std::optional<Decision> decision;
  std::vector<Source> kept;
  std::vector<Source> results;        // a tensor leaf of the result each
  std::string plain_results;          // its other leaves, a line each
  std::vector<StateTensor> states;    // the tensors that the function changed
  Source generator;                   // the default generator's next state, where the function draws from it
  std::vector<StateNumbers> numbers;  // numbers in state that it changed, and their values
  std::shared_ptr<void> prototype;    // the result with undefined tensors; null for void

  // Equal for equal computations: what Check compares. `whole`: with the values of what is no tensor.
  std::string structure(bool whole = true) const;
};

// A number that no other specialization of this process has, also after its end. From 1.
std::uint64_t new_id();

// What a segment is compiled to.
struct Kernels {
  std::shared_ptr<const Executable> executable;  // null where that failed
  std::string failure;                           // why
  std::vector<std::uint32_t> donors;             // of each output: the leaf whose memory it may take, or no_leaf
  // Of each output that only this call's way through the tree reads, on the host: which of Scratch::answers has it.
  std::vector<std::int8_t> answers;  // -1: it is a tensor; empty: all are
  bool has_error_word = false;       // on a device: no state is written once a check of this thread has failed
  bool checks_wait = false;          // on a device a failed check is thrown later: all state that changes is donated
};
class KernelJob;
class LevelBody;
class RegisteredRun;
struct Recording;

// What a round of a loop is given as kept where no round was before it: a leaf, or a constant.
struct FirstKept {
  std::uint32_t leaf = no_leaf;
  Tensor constant = {};
};
struct Segment;
// A segment as the first round of a loop.
struct FirstRound {
  const Segment* round;  // the other rounds
  std::vector<FirstKept> kept;
};

// What is compiled as one. Branches with the same computation share one: the rounds of a loop.
struct Segment {
  TraceResult traced;              // the graph's nodes are kept only where it is replayed, or see keeps_graph
  std::vector<Type> output_types;  // of the graph's outputs
  std::string structure;           // for Check, and to find what computes the same
  std::shared_ptr<KernelJob> job;  // that makes its kernels; null where it has none
  // Null before they are made. Where there are none the graph is replayed by an executor.
  std::atomic<const Kernels*> kernels{nullptr};
  std::unique_ptr<const Kernels> made;  // what that points to
  std::string no_job;                   // why it has none, where the function is compiled
  Backend backend = Backend::compiled;
  std::shared_ptr<RegisteredRun> registered = {};  // runs it, where the function has a registered backend
  bool draws = false;                              // reads or writes the default generator's state
  bool calls_host = false;                         // has an effect of the program's code
  // Many rounds of it at once, as long as the outcome is this one; null where it does not follow itself. It may come
  // when calls run.
  mutable std::atomic<const Segment*> rounds{nullptr};
  mutable const Segment* loop = nullptr;  // the same before it is compiled; under the function's mutex
  bool round_outcome = false;
  // It is the first round of a loop, whose segment may run in its place; null where it is not.
  mutable std::atomic<const FirstRound*> first_round{nullptr};
  mutable std::unique_ptr<const FirstRound> made_first_round;  // what that points to
  // The segment of whose rounds it is one.
  const Segment& as_round() const {
    const FirstRound* const first = first_round.load(std::memory_order_acquire);
    return first ? *first->round : *this;
  }
  bool keeps_graph = false;  // what follows its decision, or it itself, may be selected (trace/select.hpp)

  const Executable* executable() const {
    const Kernels* const all = kernels.load(std::memory_order_acquire);
    return all ? all->executable.get() : nullptr;
  }
  // Whether it runs as it is meant to: by its kernels, where it has a job.
  bool is_ready() const { return !job || executable(); }
  // Why it is replayed; empty where it is not, or was not to be compiled.
  const std::string& fallback() const {
    const Kernels* const all = kernels.load(std::memory_order_acquire);
    return all ? all->failure : no_job;
  }
};

// A value of a trace, by its place among what was recorded: the same place in each trace that decides alike.
struct ValuePlace {
  std::uint32_t operation = 0, output = 0;
  auto operator<=>(const ValuePlace&) const = default;
};

// What follows an outcome of a decision; of the first segment, the whole. It never changes once it is in the tree, but
// for the list of its own branches, which grows at its front.
struct Branch {
  const Segment* segment = nullptr;
  std::int64_t outcome = 0;              // of the decision before it
  std::vector<DimCondition> conditions;  // what the sizes satisfy from that decision on
  std::vector<ValuePlace> kept;          // what segment->traced.kept are
  // Of a resumable function: what was recorded for the segment, the numbers in it that differ from call to call, and
  // those that the segment takes, after what was kept before it. By their places.
  std::shared_ptr<const Recording> recording;
  std::vector<std::uint32_t> lifted, host_inputs;
  mutable std::atomic<const Branch*> first{nullptr};
  const Branch* next = nullptr;  // another branch of the same decision
  // What calls take in the place of this branch's decision (trace/select.hpp), as soon as it is compiled: a branch
  // whose segment computes both sides; more of them for other sizes. `decides` and `sides` are of such a one: the
  // branch whose decision that is, and what follows each outcome.
  mutable std::atomic<const Branch*> selected{nullptr};
  const Branch *decides = nullptr, *sides[2] = {};
  // The branch of the next round of a loop, and how many follow so from here on, itself included.
  mutable std::atomic<const Branch*> next_round{nullptr};
  mutable std::atomic<std::int64_t> rounds{1};
  mutable std::atomic<std::uint64_t> calls{0};  // that came here, about

  // Its conditions, for a call of these words.
  bool holds(const Guards& guards, const Words& words, std::span<const std::int64_t> counts = {}) const;
  // The branch of this outcome for a call of these words; null where there is none.
  const Branch* find(std::int64_t outcome, const Guards& guards, const Words& words) const;
  // The selected branch for a call of these words; null where there is none that is compiled.
  const Branch* select(const Guards& guards, const Words& words) const;
};

struct Specialization : std::enable_shared_from_this<Specialization> {
  // `id`: new, or of its function's eager ones.
  explicit Specialization(std::uint64_t id) : id(id) {}

  const std::uint64_t id;  // what was noted of it is found by this: an address may come again
  Guards guards;           // up to the first decision
  Branch root;             // of a resumable function it has no segment: the first ones are below it
  // Of calls inside a differentiation level that are differentiated: what of (trace/level_call.hpp).
  std::shared_ptr<const LevelBody> level = {};
  bool symbolic = false;
  bool resumable = false;            // each call runs the function's code (trace/resume.hpp)
  std::size_t number = 0;            // index of this specialization, in compilation order
  double trace_milliseconds = 0;     // that the first trace took
  double autograd_milliseconds = 0;  // of these, for derivatives
  // Written by calls, apart from what they read.
  alignas(cache_lines) mutable std::atomic<std::uint64_t> calls{0};  // counted where Check samples: CallCounter
  mutable std::atomic<std::uint64_t> last_used{0};  // tick at which it came into use, after another one

  // What the tree is made of, under the function's mutex.
  alignas(cache_lines) mutable std::deque<Segment> segments;
  mutable std::deque<Branch> branches;
  mutable std::unordered_map<std::string, const Segment*> segment_of;  // by structure
  mutable std::size_t pieces = 0;  // of a function that decides: segments that were to be compiled

  const Segment& first() const { return *(root.segment ? &root : root.first.load(std::memory_order_acquire))->segment; }
};
// A line a branch: what was decided where, how often, and what follows. At most 64. `more`: of a decision's branch, the
// last of the way to it, for the line of its first outcome.
using DecisionText = std::function<std::string(std::span<const Branch* const> way)>;
std::vector<std::string> decision_texts(const Specialization& specialization, const DecisionText& more);

}  // namespace weft::detail
