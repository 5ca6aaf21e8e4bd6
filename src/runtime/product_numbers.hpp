// A contraction's numbers in a plan's table, shared by the executors of host and device. In: a Contraction, whose sizes
// may be symbolic. Out: the Matmul that the table's values make, and where its operands begin.
#pragma once
#include <cstddef>
#include <span>

#include "runtime/contraction.hpp"
#include "runtime/host/matmul.hpp"
#include "runtime/plan_number.hpp"
#include "runtime/room.hpp"

namespace weft::runtime {

class ProductNumbers {
 public:
  ProductNumbers() = default;
  ProductNumbers(const Contraction& c, NumberTable& table)
      : dtype_(c.dtype),
        is_wide_(c.is_wide),
        is_tf32_(c.is_tf32),
        has_bias_(c.has_bias),
        a_is_chosen_(c.a_is_chosen()),
        b_is_chosen_(c.b_is_chosen()),
        sizes_(table.add({c.m, c.n, c.k, c.a_row, c.a_column, c.b_row, c.b_column, c.c_row, c.c_column})),
        offsets_(table.add({c.a_offset, c.b_offset, c.bias_offset, c.c_offset})),
        batch_(table.add(c.batch)),
        a_batch_(table.add(c.a_batch)),
        b_batch_(table.add(c.b_batch)),
        c_batch_(table.add(c.c_batch)),
        matrices_(table.add({c.a_matrices, c.b_matrices})) {
    const auto known = [](std::initializer_list<std::span<const Dim>> lists) {
      for (const std::span<const Dim> list : lists)
        for (const Dim dim : list)
          if (!dim.is_constant()) return false;
      return true;
    };
    const Dim sizes[] = {c.m, c.n, c.k, c.a_row, c.a_column, c.b_row, c.b_column, c.c_row, c.c_column};
    constant_ = known({sizes, c.batch, c.a_batch, c.b_batch, c.c_batch});
  }

  // Whether no size or stride depends on a symbol.
  bool is_constant() const { return constant_; }

  // Whether the product stays within a step's buffers, and its result has unit stride along an axis.
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
    const Matmul p = product(numbers);
    const auto whole = [](std::int64_t size) { return Reach::is_size(size) && size < std::int64_t{1} << 31; };
    std::int64_t items = 1;
    for (const std::int64_t size : p.batch)
      if (!whole(size) || __builtin_mul_overflow(items, size, &items) || !Reach::is_size(items)) return false;
    const std::size_t buffers = 3 + std::size_t{has_bias_} + std::size_t{a_is_chosen_} + std::size_t{b_is_chosen_};
    if (rooms.size() != buffers || !whole(p.m) || !whole(p.n) || !whole(p.k)) return false;
    if (p.m > 1 && p.n > 1 && p.c_row != 1 && p.c_column != 1) return false;
    std::size_t next = 2;
    const auto matrices = [&](std::size_t offset, std::span<const std::int64_t> strides) {
      Reach reach(numbers[offsets_.begin + offset]);
      for (std::size_t axis = 0; axis < p.batch.size(); ++axis) reach.along(p.batch[axis], strides[axis]);
      return reach;
    };
    const auto chosen = [&](bool is_chosen, std::size_t operand, std::span<const std::int64_t> strides) {
      if (!is_chosen) return matrices(operand, strides);
      const std::int64_t count = numbers[matrices_.begin + operand];
      return Reach(numbers[offsets_.begin + operand]).along(items > 0 ? count : 0, strides[0]);
    };
    if (has_bias_ && !Reach(numbers[offsets_.begin + 2]).along(p.n, 1).is_in(rooms[next++], dtype_)) return false;
    for (const std::size_t operand : {0, 1}) {
      if (!(operand == 0 ? a_is_chosen_ : b_is_chosen_)) continue;
      if (items > 0 && numbers[matrices_.begin + operand] < 1) return false;
      if (!Reach::of({items}).is_in(rooms[next++], DType::i64)) return false;
    }
    return chosen(a_is_chosen_, 0, p.a_batch).along(p.m, p.a_row).along(p.k, p.a_column).is_in(rooms[0], dtype_) &&
           chosen(b_is_chosen_, 1, p.b_batch).along(p.k, p.b_row).along(p.n, p.b_column).is_in(rooms[1], dtype_) &&
           matrices(3, p.c_batch)
               .along(p.m, p.c_row)
               .along(p.n, p.c_column)
               .may_write(rooms[next], is_wide_ ? DType::f32 : dtype_);
  }

  // The product's batch strides look into `numbers`. Nothing is chosen in it: that takes a step's buffers.
  Matmul product(std::span<const std::int64_t> numbers) const {
    const auto part = [&](NumberTable::Range range) { return numbers.subspan(range.begin, range.count); };
    const std::span<const std::int64_t> n = part(sizes_);
    return {dtype_, n[0],         n[1],           n[2],           n[3],           n[4],     n[5],      n[6],    n[7],
            n[8],   part(batch_), part(a_batch_), part(b_batch_), part(c_batch_), is_wide_, has_bias_, is_tf32_};
  }

  // The first elements of a, b, the bias (null where there is none), what is chosen of a and of b (likewise), and c, in
  // a step's buffers of that order.
  struct Operands {
    std::byte *a, *b, *bias;
    Matmul::Chosen a_chosen, b_chosen;
    std::byte* c;
  };
  Operands first(void* const* buffers, std::span<const std::int64_t> numbers) const {
    const auto at = [&](std::size_t buffer, std::size_t offset, DType dtype) {
      return static_cast<std::byte*>(buffers[buffer]) + storage_bytes(info(dtype), numbers[offsets_.begin + offset]);
    };
    std::size_t next = 2;
    Operands all{at(0, 0, dtype_), at(1, 1, dtype_), nullptr, {}, {}, nullptr};
    if (has_bias_) all.bias = at(next++, 2, dtype_);
    const auto chosen = [&](std::size_t operand) -> Matmul::Chosen {
      return {static_cast<const std::int64_t*>(buffers[next++]), numbers[matrices_.begin + operand]};
    };
    if (a_is_chosen_) all.a_chosen = chosen(0);
    if (b_is_chosen_) all.b_chosen = chosen(1);
    all.c = at(next, 3, is_wide_ ? DType::f32 : dtype_);
    return all;
  }

  // The product with what is chosen.
  Matmul product(std::span<const std::int64_t> numbers, const Operands& operands) const {
    Matmul all = product(numbers);
    all.a_chosen = operands.a_chosen, all.b_chosen = operands.b_chosen;
    return all;
  }

 private:
  DType dtype_ = DType::f32;
  bool is_wide_ = false, is_tf32_ = false, has_bias_ = false, a_is_chosen_ = false, b_is_chosen_ = false,
       constant_ = false;
  NumberTable::Range sizes_, offsets_, batch_, a_batch_, b_batch_, c_batch_, matrices_;
};

}  // namespace weft::runtime
