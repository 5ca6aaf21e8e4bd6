// What the derivative of a scan keeps and where it sums, between the joint graph and the loops. In: the joint graph.
// Out: the terms of the captures' gradients, what the backward loop stacks for them, what the forward loop saves, and
// what the backward loop computes and reads.
#pragma once
#include "autograd/scan_body.hpp"

namespace weft {

class ScanPlan {
 public:
  explicit ScanPlan(const JointBody& body);

  // Of the gradient of a capture, a sum over iterations: a product, a sum over axes or rows added into a table, whose
  // operands are stacked, so that one large one follows the loop; else a value that is added up in the loop.
  // `behind`: the nodes between the term and the gradient, from the outside in; they are applied to the sum.
  struct Term {
    std::size_t operand;  // of the scan
    Tensor value;
    std::vector<const Node*> behind;
    bool in_loop = false;
  };
  const std::vector<Term>& terms() const { return terms_; }
  const std::vector<Tensor>& stacked() const { return stacked_; }  // what the backward loop stacks
  const std::vector<Tensor>& saved() const { return saved_; }      // what the forward loop stacks besides its results
  const std::vector<std::size_t>& read() const { return read_; }   // inputs of the body that the backward loop reads
  bool needs(const Tensor& value) const { return needed_.contains(value.node()); }  // whether it computes the value

 private:
  void find_terms(std::size_t operand, Tensor value, std::vector<const Node*> behind);
  void stack(const Tensor& given);
  Tensor stacked_value(const Tensor& given) const;
  bool is_stacked(const Tensor& value) const;
  void accumulate_rest();
  void stack_slice(std::size_t operand);
  void collect_needed();
  void choose_kept(const std::vector<Tensor>& roots);
  bool is_computed_again(const Tensor& value) const;
  std::int64_t bytes_to_keep(const Tensor& value) const;
  void need(const Tensor& given);
  void read(std::size_t input);
  void save(const Tensor& value);
  void read_outside(const Tensor& value);

  const JointBody& body_;
  std::vector<Term> terms_;
  std::vector<Tensor> stacked_, saved_;
  std::vector<std::size_t> read_;
  std::unordered_map<const Node*, bool> needed_;
  std::unordered_set<std::size_t> outside_;  // inputs of the body whose stacks are read after the backward loop
  std::unordered_set<std::uint64_t> kept_;   // handles of what is in memory for the backward loop, but captures
};

}  // namespace weft
