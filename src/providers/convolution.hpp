// What the providers of convolutions share: the sizes as numbers, their text and their cost.
#pragma once
#include "providers/provider.hpp"
#include "runtime/convolution.hpp"

namespace weft::providers {

// Over contiguous memory. Nothing where the node is no convolution, or a size but the batch is a symbol.
std::optional<runtime::ConvolutionSizes> convolution_sizes(const Node& node);
// As the candidate's values lie.
runtime::ConvolutionSizes convolution_sizes(const Candidate& candidate);

class ConvolutionPayload : public Payload {
 public:
  explicit ConvolutionPayload(const Candidate& candidate);
  std::string text() const override;
  loop::Cost cost() const override { return cost_; }
  bool may_fail() const override { return true; }  // libraries allocate while they run

 protected:
  runtime::ConvolutionSizes sizes_;
  Dim batch_;
  std::vector<Dim> offsets_;  // of the operands and the result

 private:
  std::string text_;
  loop::Cost cost_;
};

}  // namespace weft::providers
