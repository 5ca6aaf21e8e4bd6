// Decisions of a trace: values that the traced function reads. In: what is recorded, and the values that it reads, one
// after the other. Out: an answer each, so that the function goes on; at the end, what lies between the decisions as
// graphs of their own. A decision that was recorded by an earlier trace is answered as it was then, and nothing is
// computed. Any other is answered with its value: what it needs is run by the eager executor, once, on the arguments of
// this call.
// Invariants: a segment computes what its decision and its checks need and what is kept. What is kept are the values
// that the function can still read after the decision, as it holds them, and those that it is seen to read later;
// anything else that a later segment needs is computed again from what is kept.
#pragma once
#include <unordered_map>

#include "record/record.hpp"
#include "trace/pieces.hpp"
#include "trace/recorded_values.hpp"
#include "trace/recording.hpp"
#include "trace/resume.hpp"

namespace weft::detail {

// The way through the tree that a trace follows: the branches that a call came through and the outcome of each. If not
// all outcomes of a trace are there, those that are missing are computed, on from the values that the last one kept.
struct TakenWay {
  std::vector<const Branch*> branches;
  std::vector<std::int64_t> outcomes;  // one a branch
  std::vector<Tensor> kept;            // values of the last branch's segment->traced.kept
  Tensor generator;                    // the default generator's state, where the call has read it
  bool to_the_end = false;             // to compare: the trace may decide nothing else
  Resumption* resumption = nullptr;    // of a call whose way is found while its code runs
};

// One taken trace: a segment up to each decision, and the last, which gives the results.
struct TracedPath {
  struct Step {
    TraceResult traced;
    std::int64_t outcome = 0;              // of the decision before; of the first, nothing
    std::vector<DimCondition> conditions;  // decided on sizes since then
    std::vector<ValuePlace> kept;
    // As a branch of a resumable function has them.
    std::shared_ptr<const Recording> recording;
    std::vector<std::uint32_t> lifted, host_inputs;
  };
  std::vector<Step> steps;
  bool resumable = false;            // a value has flowed into host code
  std::size_t matched = 0;           // of the steps: those that a branch has; of these only the last has results
  std::vector<Tensor> kept;          // the values that the last step reads as kept
  std::vector<std::int64_t> counts;  // sizes that depend on values, in the order of their symbols
  Tensor generator;                  // the default generator's state, where it was read to decide
  Graph whole;                       // of a function with decisions: all that was recorded and is read
  TraceResult& last() { return steps.back().traced; }
  const Graph& graph() const { return steps.size() == 1 ? steps[0].traced.graph : whole; }
};

class Decisions final : public Decider {
 public:
  Decisions(Trace& trace, Backend backend, const TakenWay& followed)
      : trace_(trace), backend_(backend), followed_(followed), generator_(followed.generator) {}
  std::vector<Tensor> values;  // of the trace's inputs by slot, in this call

  std::int64_t decide(const Tensor& value, Asked asked, Loc loc) override;
  Tensor value(const Tensor& value, Loc loc) override;
  void constant_data(const Tensor& tensor) override;
  void host_data(const Tensor& tensor, const char* operation, Loc loc) override;
  Tensor counted_data(const Tensor& tensor, Loc loc) override;
  void before_record() override {
    if (unsettled_) settle();
  }
  void recorded(const Tensor& value) override;

  bool any() const { return !decisions_.empty() || resumable_; }
  // What was recorded, cut at the decisions. `last` is what the function gives, but for its graph and inputs; `outputs`
  // are what its sources count. `leaves`: the leaf of each input of the trace.
  TracedPath path(TraceResult last, std::span<const Tensor> outputs, std::span<const std::uint32_t> leaves);

 private:
  struct TracedDecision {
    Node* node;  // of the value: an input of the trace, or recorded
    std::uint32_t output;
    Asked asked;
    std::int64_t outcome;
    Loc loc;
    std::size_t recorded, effects, conditions, bounds, symbols;  // how many there were
    std::vector<KnownValue> known;                               // after it; in the order of recording
    bool followed;
    std::shared_ptr<Recording> recording = {};  // up to it
    std::vector<std::uint32_t> lifted = {};     // numbers in it that differ from call to call, by place
  };

  void settle();
  void settle_by_the_round_before();
  std::vector<KnownValue> known_of(const Branch& branch, Loc loc) const;
  ValueCode code_of(const Tensor& value) const;
  std::shared_ptr<Recording> recording_to(std::span<const Tensor> asked, std::vector<std::uint64_t> facts) const;
  const Branch* match(const Recording& now, std::vector<std::uint32_t>& lifted);
  Tensor number_at(std::uint32_t place) const;
  std::vector<Tensor> numbers_at(std::span<const std::uint32_t> places) const;
  std::int64_t compute(const Tensor& value, Asked asked, Loc loc, std::span<const KnownValue> known);

  Trace& trace_;
  Backend backend_;
  const TakenWay& followed_;
  Tensor generator_;  // the default generator's state in this call, once it is read
  RecordedValues recorded_;
  std::vector<TracedDecision> decisions_;
  bool unsettled_ = false;
  bool resumable_ = followed_.resumption != nullptr;
  std::size_t matched_ = 0;                             // of the decisions: those that a branch has
  bool matching_ = followed_.resumption != nullptr;     // a branch has been found for all that was recorded
  std::vector<std::uint32_t> lifted_;                   // numbers that differ from call to call, by place, in order
  std::unordered_map<std::uint64_t, Tensor> read_;      // by handle: values that the function has read
  std::unordered_map<std::uint32_t, Tensor> counted_;   // by place: what has a symbol for its first size
  std::vector<std::int64_t> counts_;                    // the sizes that these symbols are in this call
  std::unordered_map<std::uint64_t, Tensor> computed_;  // what is known, by handle, with its value in this call
  std::size_t checked_ = 0;                             // of the trace's effects: those that have run
  std::unordered_map<std::uint64_t, std::int64_t> answers_[4];  // by what was asked, by handle
};

}  // namespace weft::detail
