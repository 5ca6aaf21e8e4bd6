// The values of a trace in the order of recording, and which of them the traced function can still read. In: what is
// recorded. Out: after a decision, the values that are known and may be read later. A function can read only what it
// has a handle on, and a handle that is gone does not come back.
#pragma once
#include "record/record.hpp"
#include "trace/specialization.hpp"

namespace weft::detail {

// A value that may be read after a decision.
struct KnownValue {
  ValuePlace place;
  std::uint32_t holder;  // the operation that was looked at for it: itself, or one that shows it otherwise
  bool held;             // the function has a handle on that
};

// What the program's code has given can't be computed again: it is kept where anything may still read it.
bool is_given_by_host(const Node& node);

class RecordedValues {
 public:
  void add(const Tensor& value) { recorded_.push_back({value}); }
  std::size_t size() const { return recorded_.size(); }
  const Tensor& operator[](std::size_t operation) const { return recorded_[operation].value; }
  Tensor at(ValuePlace place) const { return Tensor(recorded_[place.operation].value.node(), place.output); }
  // The operation's number; NodeNumbers::none for what is not noted yet.
  std::uint32_t find(const Node* node) const { return places_.find(node); }
  // Looks at what was recorded since the last time.
  void note();
  // The values that may be read from now on, in the order of recording. `asked`: the node whose value is asked for now.
  std::vector<KnownValue> known_now(const Node* asked);
  // Takes back `held` of what the function has dropped since then.
  void settle(std::vector<KnownValue>& known) const;

 private:
  struct Recorded {
    Tensor value;
    std::uint32_t uses = 0;  // as an operand
  };
  bool is_held(std::uint32_t operation, const Node* asked) const;

  std::vector<Recorded> recorded_;
  NodeNumbers places_;                     // in recorded_
  std::size_t noted_ = 0;                  // of recorded_: those that are in places_, with their uses
  std::vector<std::uint32_t> candidates_;  // operations whose values the function may still hold
};

}  // namespace weft::detail
