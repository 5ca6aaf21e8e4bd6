// What the providers of convolutions share: the sizes as numbers, their text and their cost.
#pragma once
#include "providers/provider.hpp"
#include "runtime/convolution.hpp"
#include "runtime/stored_step.hpp"

namespace weft::providers {

// A convolution, or a call of one with a bias that is taken whole: both operands, the bias and the result of one 16-bit
// dtype.
bool is_convolution_with_bias(const Node& node);
// Over contiguous memory. Nothing where the node is neither, or its channels or its kernel's sizes are symbols.
std::optional<runtime::ConvolutionDims> convolution_dims(const Node& node);
// Sizes to ask a library about: a symbol counts as its hint.
runtime::ConvolutionSizes expected(const runtime::ConvolutionDims& dims);

// One of one group whose kernel is one element, over images without borders: without it a product, of all positions or
// some.
bool is_product(const runtime::ConvolutionSizes& sizes);

// A convolution as the candidate's values lie in memory.
struct PlacedConvolution {
  explicit PlacedConvolution(const Candidate& candidate);
  runtime::ConvolutionDims dims;
  std::vector<Dim> offsets;  // of the operands, the result, and the bias if there is one
  runtime::StepCost cost;
  std::string text;
};

class ConvolutionPayload : public Payload {
 public:
  explicit ConvolutionPayload(PlacedConvolution placed) : placed_(std::move(placed)) {}
  std::string details() const override { return placed_.text; }
  loop::Cost cost() const override { return {placed_.cost.bytes, placed_.cost.operations}; }

 protected:
  PlacedConvolution placed_;
};

}  // namespace weft::providers
