// Products of rows that lie by group with the matrices of their groups. Each product is a call that a provider may take
// whole. Its body is one batched product over blocks of rows of one group each: there are as many blocks as any ends
// need, the matrix of each is chosen by its number, and nobody reads what a block has after its group's last row.
#include "record/groups.hpp"

#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/products.hpp"
#include "weft/groups.hpp"

namespace weft {
namespace {

constexpr const char* product_name = "grouped_matmul";

Tensor gathered(const Tensor& table, const Tensor& index, Loc loc) {
  return record(Op::gather, {table, index}, {}, {}, loc);
}

struct Blocks {
  Tensor row;     // [blocks, block]: the row of x; an empty place has any row of x
  Tensor is_row;  // [blocks, block]: whether something is
  Tensor group;   // [blocks]
  Tensor slot;    // [rows]: where among all rows of blocks each is
};

Blocks blocks_of(const Tensor& given, Dim rows, Loc loc) {
  const Dim count = type_of(given).shape[0];
  const Device device = type_of(given).device;
  // A group of the mean number of rows fills about two blocks, each of a multiple of 16 rows: smaller blocks read its
  // weights more often, larger ones leave more places empty.
  const Dim block = (rows + Dim(32) * count - Dim(1)) / (Dim(32) * count) * Dim(16);
  const Dim blocks = (rows + block - Dim(1)) / block + count;
  const auto numbers = [&](Dim end) { return positions(0, Shape::of(end), device, loc); };
  const auto number = [&](Dim dim) { return dim_value(dim, loc); };
  const auto of = [&](const Tensor& table, const Tensor& index) { return gathered(table, index, loc); };
  const Tensor place = numbers(count);
  const Tensor in_range =
      minimum(maximum(where(place == number(count - Dim(1)), number(rows), given), 0), number(rows));
  const Tensor before = unsqueeze(place, 0) <= unsqueeze(place, 1);       // [groups, groups]
  const Tensor ends = amax(where(before, unsqueeze(in_range, 0), 0), 1);  // the greatest so far
  const Tensor begins = where(place == 0, 0, of(ends, maximum(place - 1, 0)));
  const Tensor taken = floor_divide(ends - begins + number(block - Dim(1)), number(block)) * number(block);
  const Tensor taken_ends = cumsum(taken, 0), taken_begins = taken_ends - taken;
  const Tensor first = numbers(blocks) * number(block);
  Blocks made;
  made.group = minimum(searchsorted(taken_ends, first, true), number(count - Dim(1)));
  const Tensor row = unsqueeze(first - of(taken_begins - begins, made.group), 1) + unsqueeze(numbers(block), 0);
  made.is_row = row < unsqueeze(of(ends, made.group), 1);
  made.row = minimum(row, number(rows - Dim(1)));
  made.slot = numbers(rows) + of(taken_begins - begins, searchsorted(ends, numbers(rows), true));
  return made;
}

// The derivatives are calls of the two again, of what the first ones give.
Tensor rows_of_groups(const Tensor& x, const Tensor& weights, const Tensor& ends, Loc loc);
Tensor sums_of_groups(const Tensor& x, const Tensor& y, const Tensor& ends, Loc loc);

void differentiate_rows(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &x = call.operands[0], &weights = call.operands[1], &ends = call.operands[2], &given = call.gradients[0];
  if (call.wanted[0]) gradients[0] = rows_of_groups(given, transpose(weights), ends, recorder().loc);
  if (call.wanted[1]) gradients[1] = sums_of_groups(x, given, ends, recorder().loc);
}
void differentiate_sums(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &x = call.operands[0], &y = call.operands[1], &ends = call.operands[2], &given = call.gradients[0];
  if (call.wanted[0]) gradients[0] = rows_of_groups(y, transpose(given), ends, recorder().loc);
  if (call.wanted[1]) gradients[1] = rows_of_groups(x, given, ends, recorder().loc);
}

// [rows, n]: each row of x [rows, k] times the matrix of its group, of weights [groups, k, n].
Tensor rows_of_groups(const Tensor& x, const Tensor& weights, const Tensor& ends, Loc loc) {
  const auto body = [loc](const Tensor& x, const Tensor& weights, const Tensor& ends) {
    const Blocks blocks = blocks_of(ends, type_of(x).shape[0], loc);
    const Tensor products = matmul(gathered(x, blocks.row, loc), gathered(weights, blocks.group, loc));
    return gathered(flatten(products, 0, 1), blocks.slot, loc);
  };
  return composite_with(differentiate_rows, called(product_name), loc, body, x, weights, ends);
}

// [groups, m, n]: the rows of x [rows, m] of each group, transposed, times those of y [rows, n]. A group may have
// several blocks: their products are added up before they are rounded.
Tensor sums_of_groups(const Tensor& x, const Tensor& y, const Tensor& ends, Loc loc) {
  const auto body = [loc](const Tensor& x, const Tensor& y, const Tensor& ends) {
    const Type &left = type_of(x), &right = type_of(y);
    const Blocks blocks = blocks_of(ends, left.shape[0], loc);
    const auto in_blocks = [&](const Tensor& rows) {
      return where(unsqueeze(blocks.is_row, 2), gathered(rows, blocks.row, loc), 0);
    };
    const Tensor products = accumulated_matmul(transpose(in_blocks(x)), in_blocks(y), loc);
    const Type sums{type_of(products).dtype, false, left.device,
                    Shape::of(type_of(ends).shape[0], left.shape[1], right.shape[1])};
    return cast(record(Op::scatter_add, {blocks.group, products}, {}, sums, loc), left.dtype);
  };
  return composite_with(differentiate_sums, called("grouped_matmul_of_rows"), loc, body, x, y, ends);
}

}  // namespace

bool is_product_of_groups(const Callee& callee) {
  return callee.derivative == differentiate_rows || callee.derivative == differentiate_sums;
}

Tensor grouped_matmul(At x, At weights, At ends) {
  Operation call(product_name, x.loc);
  const Tensor rows = resolve(x, product_name), table = resolve(weights, product_name),
               last = resolve(ends, product_name);
  const Type &left = type_of(rows), &right = type_of(table), &of_groups = type_of(last);
  const bool fits = left.shape.rank() == 2 && right.shape.rank() == 3 && of_groups.shape.rank() == 1 &&
                    is_floating(left.dtype) && is_floating(right.dtype) && is_integer(of_groups.dtype) &&
                    left.shape[1] == right.shape[1] && right.shape[0] == of_groups.shape[0] &&
                    !(right.shape[0] == Dim(0));
  if (!fits)
    fail(
        product_name, call.loc(),
        "takes floating rows [rows, k] and weights [groups, k, n], of at least one group, and integers [groups], where "
        "each ends: ",
        to_string(left), " x ", to_string(right), ", ", to_string(of_groups));
  const DType dtype = promote({left.dtype, false, left.weak}, {right.dtype, false, right.weak});
  if (left.shape[0] == Dim(0))
    return constant_like(0, {dtype, false, left.device, Shape::of(left.shape[0], right.shape[2])}, call.loc());
  return rows_of_groups(cast(rows, dtype), cast(table, dtype), cast(last, DType::i64), call.loc());
}

}  // namespace weft
