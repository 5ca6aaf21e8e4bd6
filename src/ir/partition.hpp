// Partition of a joint graph: which values the forward call saves, and which the derivative computes again. In: the
// forward graph, and which of its values the derivative reads. Out: the values to save. It is a minimum cut: a saved
// value costs its bytes, and a value that is computed again costs the time of that, as the bytes that memory could move
// meanwhile. Results, arguments, constants, views and random draws (by their offset) cost nothing. Invariants: what
// runs once (host calls, effects, loops) is never computed again; neither is a value on whose bits a comparison
// depends, where computing it again may give others.
#pragma once
#include <functional>
#include <memory>

#include "ir/graph.hpp"

namespace weft {

// What a derivative reads of a forward graph.
struct ForwardReads {
  std::vector<Tensor> values;
  std::vector<Tensor> compared;  // of these: the derivative compares them, or rounds them to integers
};
// `forward` gives the value of the forward graph that a value of the joint graph is; undefined where it is none.
ForwardReads forward_reads(std::span<const Tensor> derivative_outputs,
                           const std::function<Tensor(const Tensor&)>& forward);

struct SavedValue {
  Tensor value;
  std::int64_t bytes;  // of the sizes in the call that was traced
  const char* why;
};

// `budget` in [0, 1]: how many of the bytes that are saved at 1 may be saved. At 1 nothing expensive (products,
// convolutions, attention) is computed again; below, what takes the least time for its bytes. In the graph's order.
std::vector<SavedValue> partition(const Graph& forward, const ForwardReads& reads, double budget = 1);
// Many choices for one graph, which must live as long as this.
class Partitions {
 public:
  // `times`: how long each node takes, as times_of() gives it; it is estimated where one is negative or none is given.
  // `bounds_chains`: of values that are read, and made of each other by cheap operations, every fourth is saved.
  Partitions(const Graph& forward, const ForwardReads& reads, std::span<const double> times = {},
             bool bounds_chains = false);
  ~Partitions();
  Partitions(const Partitions&) = delete;
  std::vector<SavedValue> cheap();  // of a budget of 1
  // Where a byte's time counts `weight` times as much as a byte that is held, and expensive nodes may be computed
  // again: the smaller, the less is saved, and the more time it takes.
  std::vector<SavedValue> at(double weight);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// About how long each node takes, as the bytes that memory could move meanwhile, and all of them. Loops and what runs
// once are not counted.
std::vector<double> times_of(const Graph& graph);
double time_of(const Graph& graph);

// A line for each saved value: bytes, type, user's line, why.
std::string to_text(const SavedValue& saved);

}  // namespace weft
