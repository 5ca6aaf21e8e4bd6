// The body of a scan and its derivative as one graph, the first part of the derivative of a scan. In: a scan whose
// results have gradients. Out: which carries have gradients, the joint graph, and which of its values depend on a
// gradient or are computed again for one: those the backward loop computes, all others the forward loop has.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "autograd/rules.hpp"
#include "record/loops.hpp"

namespace weft {

class JointBody {
 public:
  // `scope` is what is recorded in while this is made.
  JointBody(const Pullback& p, LoopBody& scope);

  // Whether every gradient is zero. Then nothing of what follows may be asked for.
  bool is_zero() const { return is_zero_; }

  const Pullback& pullback() const { return p_; }
  const Node& node() const { return p_.node(); }
  const Scan& scan() const { return scan_; }
  std::size_t carries() const { return carries_; }
  std::size_t scanned() const { return scanned_; }
  // By carry: whether it has a gradient.
  const std::vector<bool>& active() const { return active_; }
  const Graph& graph() const { return joint_; }
  // Of the graph: the body's inputs; by output of the scan its gradient and its value; by operand its gradient.
  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Tensor>& seeds() const { return seeds_; }
  const std::vector<Tensor>& results() const { return results_; }
  const std::vector<Tensor>& gradients() const { return gradients_; }

  bool is_backward(const Tensor& value) const { return backward_.at(value.node()); }
  // Whether it is of the derivative of a checkpoint in the body, which keeps nothing of one iteration for another.
  bool is_recomputed(const Tensor& value) const { return recomputed_.contains(value.node()); }
  // Index of the body's input; the number of inputs where the value is none.
  std::size_t slot(const Tensor& input) const;
  bool is_capture(std::size_t slot) const { return slot >= carries_ + scanned_ && slot < inputs_.size(); }

 private:
  void choose_carries(const Graph& body);
  bool record_body(const Graph& body, LoopBody& scope);
  void classify();
  bool has_gradient(std::size_t operand) const { return operand < carries_ ? active_[operand] : p_.wanted[operand]; }

  const Pullback& p_;
  const Scan scan_;
  const std::size_t carries_, scanned_;
  bool is_zero_ = true;
  std::vector<bool> active_;
  Graph joint_;
  std::vector<Tensor> inputs_, seeds_, results_, gradients_;
  std::unordered_map<const Node*, bool> backward_;
  std::unordered_set<const Node*> recomputed_;
};

// A value without what marks it as a variable.
Tensor below_variables(Tensor value);

}  // namespace weft
