// What was recorded since the variables of a level, for a walk in either direction. In: values and variables. Out: the
// nodes that the values need and that are not older than the variables, in recording order, and which of them depend on
// a variable. Nothing older can depend on one.
#pragma once
#include "ir/graph.hpp"
#include "ir/node_numbers.hpp"
#include "record/place_guard.hpp"

namespace weft {

class EvaluationLock;

class LevelWalk {
 public:
  static constexpr std::uint32_t none = NodeNumbers::none;
  struct Entry {
    Node* node;
    std::uint32_t first_operand = 0;  // in the list of the operands' entries
    std::uint32_t first_output = 0;   // its outputs, counted over all entries
  };

  // `variables` are in recording order. Throws Error when a value on the way was computed with no level open.
  LevelWalk(std::span<const Tensor> values, std::span<const Tensor> variables, const char* operation, Loc loc);

  std::span<const Entry> entries() const { return entries_; }
  std::uint32_t output_count() const { return output_count_; }
  // The entry of each operand, value and variable; none for what cannot depend.
  const std::uint32_t* operands(const Entry& entry) const { return operand_entries_.data() + entry.first_operand; }
  // The entry of a value that an operand is computed from; none for what cannot depend.
  std::uint32_t entry_of(const Tensor& value) const { return find(value); }
  std::span<const std::uint32_t> values() const { return value_entries_; }
  std::span<const std::uint32_t> variables() const { return variable_entries_; }

  bool is_variable(const Node* node) const;
  // Whether a value, whose entry is given, has a derivative that may differ from zero.
  bool depends(std::uint32_t entry, const Tensor& value) const;
  // Whether an output of a node, counted over all entries, depends on a variable.
  bool depends(std::uint32_t output) const { return depends_[output]; }
  // Where a value's output is counted.
  std::uint32_t output(std::uint32_t entry, const Tensor& value) const {
    return entries_[entry].first_output + value.output();
  }

 private:
  std::uint32_t find(const Tensor& value) const;
  bool collect(std::span<const Tensor> values, const EvaluationLock& lock);

  std::span<const Tensor> given_;  // the variables
  const char* operation_;
  Loc loc_;
  std::uint64_t start_;
  std::uint32_t output_count_ = 0;
  std::vector<Entry> entries_;  // in recording order
  NodeNumbers numbers_;         // by node, its place in `entries_`
  std::vector<std::uint32_t> operand_entries_, value_entries_, variable_entries_;
  std::vector<unsigned char> depends_;  // by output
};

// Until the end of the block, what is recorded gets the location, the scope and the region of `node`, but no mark of
// offload(), and nothing is cast by autocast: a derivative is computed in the types of what it is of.
class InPlaceOf {
 public:
  InPlaceOf(const Node& node, Loc otherwise);

 private:
  const PlaceGuard before_;
};

inline bool is_differentiable(const Tensor& value) { return is_floating(type_of(value).dtype); }
// What it was computed from is not known any more.
bool hides_operands(const Node& node);

}  // namespace weft
