#include "providers/product.hpp"

#include <string_view>
#include <utility>

#include "ir/callee.hpp"
#include "runtime/host/steps.hpp"
#include "schedule/index_map.hpp"
#include "schedule/kernel_axes.hpp"

namespace weft::providers {

std::optional<DType> multiplied(const Node& node) {
  if (node.op != Op::matmul) return std::nullopt;
  return type_of(node.input(0)).dtype;
}
std::optional<DType> multiplied_with_bias(const Node& node) {
  const bool is_linear =
      node.op == Op::call && !node.definition && node.operand_count == 3 && std::string_view(name_of(node)) == "linear";
  if (!is_linear) return std::nullopt;
  const DType dtype = node.type.dtype;
  if (!is_floating(dtype) || computed_in(dtype) == dtype) return std::nullopt;
  for (const Tensor& operand : node.inputs())
    if (type_of(operand).dtype != dtype) return std::nullopt;
  return dtype;
}

bool is_device_product_with_bias(const Node& node) {
  if (!multiplied_with_bias(node)) return false;
  constexpr std::int64_t together = 8;  // 16 bytes
  const Shape& weights = type_of(node.input(1)).shape;
  const auto fits = [](Dim size) { return !size.is_constant() || size.constant() % together == 0; };
  return fits(weights[0]) && fits(weights[1]);
}

bool has_unit_stride(const Shape& shape, std::span<const Dim> strides) {
  if (strides.size() == 1) return strides[0].same(Dim(1)) || shape[0].same(Dim(1));
  for (std::size_t axis = strides.size() - 2; axis < strides.size(); ++axis)
    if (strides[axis].same(Dim(1)) || shape[static_cast<int>(axis)].same(Dim(1))) return true;
  return false;
}

bool is_matrix_times_vector(const Node& node) {
  const Shape& shape = node.type.shape;
  const int rank = shape.rank();
  const Dim one = 1, rows = shape[rank - 2], columns = shape[rank - 1];
  for (int i = 0; i < rank - 2; ++i)
    if (!shape[i].same(one)) return false;
  if (rows.same(one) == columns.same(one)) return false;
  if (node.op == Op::call) return rows.same(one);  // `linear`, whose weights are [n, k]
  const Node* matrix = node.input(rows.same(one) ? 1 : 0).node();
  const Shape& from = matrix->type.shape;
  IndexVector index;
  for (int i = 0; i < from.rank(); ++i) index.push_back(dims::axis(i, from[i]));
  const auto added = static_cast<std::size_t>(rows.same(one) ? from.rank() - 2 : from.rank() - 1);
  const Dim along = index[added];
  if (!from[static_cast<int>(added)].is_constant()) return false;
  for (; is_view(matrix->op) || matrix->op == Op::cast; matrix = matrix->input(0).node())
    if (is_view(matrix->op)) index = map_through_view(*matrix, index);
  const dims::Linear place = dims::linear_in(linear_index(matrix->type.shape, index), along);
  return place.linear && place.coefficient.same(one);
}

std::int64_t multiplications(const Node& node) {
  const Shape &a = type_of(node.operands[0]).shape, &result = node.type.shape;
  const Dim count = result.element_count(), depth = a[a.rank() - 1];
  if (!count.is_constant() || !depth.is_constant()) return 0;
  return count.constant() * depth.constant();
}

Contraction contraction_of(const Candidate& candidate) {
  Contraction c;
  const PlacedValue &a = candidate.operands[0], &b = candidate.operands[1], &result = candidate.result();
  const Shape& shape = result.type.shape;
  const auto row = static_cast<std::size_t>(shape.rank() - 2), column = row + 1;
  c.dtype = a.type.dtype;
  c.is_wide = result.type.dtype != c.dtype;
  c.has_bias = candidate.operands.size() > 2;
  c.measures = candidate.choices.measures;
  c.is_tf32 = candidate.choices.uses_tf32 && candidate.device.type == Device::Type::cuda && c.dtype == DType::f32;
  for (std::size_t i = 0; i < row; ++i) c.batch.push_back(shape[static_cast<int>(i)]);
  c.m = shape[static_cast<int>(row)], c.n = shape[static_cast<int>(column)];
  c.k = a.type.shape[static_cast<int>(column)];
  const auto batch = [](const PlacedValue& value) {
    return std::vector<Dim>(value.strides.begin(), value.strides.end() - 2);
  };
  c.a_offset = a.offset, c.a_batch = batch(a), c.a_row = a.strides[row], c.a_column = a.strides[column];
  c.b_offset = b.offset, c.b_batch = batch(b), c.b_row = b.strides[row], c.b_column = b.strides[column];
  if (c.has_bias) {  // b is a layer's weights
    std::swap(c.b_row, c.b_column);
    c.bias_offset = candidate.operands[2].offset;
  }
  if (a.chosen >= 0) c.a_matrices = a.matrices;
  if (b.chosen >= 0) c.b_matrices = b.matrices;
  c.c_offset = result.offset, c.c_batch = batch(result);
  c.c_row = result.strides[row], c.c_column = result.strides[column];
  return c;
}

loop::Kernel Product::as_kernel() const {
  using loop::Instruction, loop::Kind;
  const Contraction& c = contraction_;
  loop::Kernel kernel;
  kernel.name = "product";
  std::vector<Dim> at;
  const auto axis = [&](Dim extent, bool inner = false) {
    kernel.axes.push_back({extent, inner});
    at.push_back(dims::axis(static_cast<int>(kernel.axes.size()) - 1, extent));
    return at.back();
  };
  Dim batches = 1;
  for (const Dim size : c.batch) batches = batches * (axis(size), size);
  const Dim row = axis(c.m), column = axis(c.n), depth = axis(c.k, true);
  const auto place = [&](Dim offset, std::span<const Dim> batch, Dim down, Dim across) {
    for (std::size_t i = 0; i < batch.size(); ++i) offset = offset + at[i] * batch[i];
    return offset + down + across;
  };
  const auto emit = [&](Instruction instruction) {
    kernel.body.push_back(instruction);
    return static_cast<std::int32_t>(kernel.body.size()) - 1;
  };
  const auto buffer = [&](bool written, Dim elements) {
    kernel.buffers.push_back(
        {written ? c.result_dtype() : c.dtype, written, static_cast<std::int32_t>(kernel.buffers.size()), elements});
    return static_cast<std::int32_t>(kernel.buffers.size()) - 1;
  };
  const DType wide = accumulated_in(c.dtype);
  const auto cast = [&](std::int32_t value, DType from, DType to) {
    return from == to ? value : emit({.kind = Kind::cast, .dtype = to, .args = {value, -1, -1}});
  };
  const auto operand = [&](Dim elements, Dim index) {
    const std::int32_t value =
        emit({.kind = Kind::load, .dtype = c.dtype, .buffer = buffer(false, elements), .index = index});
    return cast(value, c.dtype, wide);
  };
  const std::int32_t a = operand(c.m * c.k * batches, place(c.a_offset, c.a_batch, row * c.a_row, depth * c.a_column));
  const std::int32_t b =
      operand(c.k * c.n * batches, place(c.b_offset, c.b_batch, depth * c.b_row, column * c.b_column));
  Instruction sum{.kind = Kind::reduce, .op = Op::sum, .dtype = wide};
  // Where an operand does not differ from row to row, or from column to column, there is nothing to tile.
  const auto is_few = [](Dim size) { return size.same(Dim(0)) || size.same(Dim(1)); };
  const bool tiled = !is_few(c.m) && !is_few(c.n) && !c.a_row.same(Dim(0)) && !c.b_column.same(Dim(0));
  if (tiled) {
    sum.reduction = loop::ReductionKind::product;
    sum.args[0] = a, sum.args[1] = b;
  } else {
    sum.args[0] = emit({.kind = Kind::apply, .op = Op::mul, .dtype = wide, .args = {a, b, -1}});
  }
  std::int32_t total = emit(sum);
  if (c.has_bias) {
    const std::int32_t bias = operand(c.n, c.bias_offset + column);
    total = emit({.kind = Kind::apply, .op = Op::add, .dtype = wide, .args = {total, bias, -1}});
  }
  const std::int32_t result = cast(total, wide, c.result_dtype());
  emit({.kind = Kind::store,
        .dtype = c.result_dtype(),
        .args = {result, -1, -1},
        .buffer = buffer(true, c.m * c.n * batches),
        .index = place(c.c_offset, c.c_batch, row * c.c_row, column * c.c_column)});
  kernel.vector_axis = static_cast<int>(kernel.axes.size()) - (tiled ? 2 : 1);
  loop::settle(kernel);
  parametrize(kernel);
  loop::verify(kernel);
  return kernel;
}

std::string Product::details() const {
  const auto size = [](Dim dim) { return dims::to_string(dim); };
  const Contraction& c = contraction_;
  return " [" + size(c.m) + "," + size(c.k) + "] x [" + size(c.k) + "," + size(c.n) + "]" +
         (c.has_bias ? " + [" + size(c.n) + "]" : "") + (c.a_is_chosen() ? ", the left ones chosen" : "") +
         (c.b_is_chosen() ? ", the right ones chosen" : "");
}

loop::Cost Product::cost() const {
  const runtime::StepCost cost = runtime::cost_of(contraction_);
  return {cost.bytes, cost.operations};
}

}  // namespace weft::providers
