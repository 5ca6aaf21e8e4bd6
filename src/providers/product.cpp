#include "providers/product.hpp"

namespace weft::providers {

bool has_unit_stride(const Shape& shape, std::span<const Dim> strides) {
  for (std::size_t axis = strides.size() - 2; axis < strides.size(); ++axis)
    if (strides[axis].same(Dim(1)) || shape[static_cast<int>(axis)].same(Dim(1))) return true;
  return false;
}

Product::Product(const Candidate& candidate) {
  Contraction& c = contraction_;
  const PlacedValue &a = candidate.operands[0], &b = candidate.operands[1], &result = candidate.result();
  const Shape& shape = result.type.shape;
  const auto row = static_cast<std::size_t>(shape.rank() - 2), column = row + 1;
  c.dtype = result.type.dtype;
  for (std::size_t i = 0; i < row; ++i) c.batch.push_back(shape[static_cast<int>(i)]);
  c.m = shape[static_cast<int>(row)], c.n = shape[static_cast<int>(column)];
  c.k = a.type.shape[static_cast<int>(column)];
  const auto batch = [](const PlacedValue& value) {
    return std::vector<Dim>(value.strides.begin(), value.strides.end() - 2);
  };
  c.a_offset = a.offset, c.a_batch = batch(a), c.a_row = a.strides[row], c.a_column = a.strides[column];
  c.b_offset = b.offset, c.b_batch = batch(b), c.b_row = b.strides[row], c.b_column = b.strides[column];
  c.c_offset = result.offset, c.c_batch = batch(result);
  c.c_row = result.strides[row], c.c_column = result.strides[column];
}

std::string Product::text() const {
  const auto size = [](Dim dim) { return dims::to_string(dim); };
  const Contraction& c = contraction_;
  return " [" + size(c.m) + "," + size(c.k) + "] x [" + size(c.k) + "," + size(c.n) + "]";
}

loop::Cost Product::cost() const {
  const Contraction& c = contraction_;
  Dim batches = 1;
  for (Dim size : c.batch) batches = batches * size;
  return {storage_bytes(info(c.dtype), (c.m * c.k + c.k * c.n + c.m * c.n) * batches),
          Dim(2) * c.m * c.n * c.k * batches};
}

}  // namespace weft::providers
