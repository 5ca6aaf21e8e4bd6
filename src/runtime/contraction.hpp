// A batched matrix product over strided memory: c[batch, m, n] = a[batch, m, k] b[batch, k, n], and of one matrix
// a b + bias[n]. Strides and offsets count elements and may be symbolic. Shared by the providers of products.
#pragma once
#include <tuple>
#include <vector>

#include "weft/dim.hpp"
#include "weft/dtype.hpp"

namespace weft {

struct Contraction {
  DType dtype = DType::f32;  // of the operands, the bias too
  std::vector<Dim> batch;    // sizes
  Dim m = 1, n = 1, k = 1;
  Dim a_offset = 0, b_offset = 0, c_offset = 0;
  std::vector<Dim> a_batch, b_batch, c_batch;  // strides of the batch axes
  Dim a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0, c_column = 0;
  bool is_wide = false;   // the result is f32, of 16-bit operands
  bool has_bias = false;  // of unit stride; then there is no batch, and c lies by rows
  Dim bias_offset = 0;
  bool measures = false;  // a library that has several kernels for it times them
  bool is_tf32 = false;   // of f32 on a device: by tensor cores, which read 10 bits of the operands' fractions
  // Not 0: of so many matrices the operand's one for item i is the chosen[i]-th, a batch stride apart; `chosen` is i64,
  // a buffer after the operands and the bias, a's first. There is one batch axis.
  Dim a_matrices = 0, b_matrices = 0;

  static auto fields(auto& self) {
    return std::tie(self.dtype, self.batch, self.m, self.n, self.k, self.a_offset, self.b_offset, self.c_offset,
                    self.a_batch, self.b_batch, self.c_batch, self.a_row, self.a_column, self.b_row, self.b_column,
                    self.c_row, self.c_column, self.is_wide, self.has_bias, self.bias_offset, self.measures,
                    self.is_tf32, self.a_matrices, self.b_matrices);
  }
  bool a_is_chosen() const { return !a_matrices.same(Dim(0)); }
  bool b_is_chosen() const { return !b_matrices.same(Dim(0)); }
  DType result_dtype() const { return is_wide ? DType::f32 : dtype; }
};

}  // namespace weft
