// What the providers of matrix products share: the product as strided memory, its text and its cost. A product is a
// matmul, or a call of `linear` that is taken whole: of a matrix, weights [n, k] and a bias [n], rounded once.
#pragma once
#include "providers/provider.hpp"
#include "runtime/contraction.hpp"

namespace weft::providers {

// The dtype of the operands of a matmul. Nothing of another node.
std::optional<DType> multiplied(const Node& node);
// The same of a call of `linear` whose operands and result are of one 16-bit dtype.
std::optional<DType> multiplied_with_bias(const Node& node);
// The same on a device, of sizes of which cuBLASLt adds the bias before it rounds the sum. Of others the body is as
// fast: its product may be padded, and is f32 before a kernel adds the bias.
bool is_device_product_with_bias(const Node& node);

// Rows or columns without gaps between their elements: where the product's own axes are the last two.
bool has_unit_stride(const Shape& shape, std::span<const Dim> strides);

// A matrix times a vector, where the matrix's elements that are added up lie side by side. Each of them is read once: a
// sum of products in a generated kernel is as fast as memory, and is fused with what is around it.
bool is_matrix_times_vector(const Node& node);

// Multiplications of a product of known sizes; else 0.
std::int64_t multiplications(const Node& node);

// The product as strided memory.
Contraction contraction_of(const Candidate& candidate);

class Product : public Payload {
 public:
  explicit Product(const Candidate& candidate) : contraction_(contraction_of(candidate)) {}
  std::string details() const override;
  loop::Cost cost() const override;
  const Contraction& contraction() const { return contraction_; }
  // The product as a kernel of our own, over any strides. Its size slots are over the graph's symbols.
  loop::Kernel as_kernel() const;

 protected:
  Contraction contraction_;
};

// A product on a device and the activation that reads it, by one kernel of cuBLASLt (followed_product.cpp).
std::optional<Followed> followed_product(const Step& product, const Step& follower, bool keeps, Device device);

}  // namespace weft::providers
