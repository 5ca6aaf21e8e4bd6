// PyTorch's promotion, written out: which dtype an operation computes in, for every pair of dtypes and every pair of
// ranks (a tensor with axes, one without, a plain number). The tables are torch.result_type's, and
// numpy.promote_types' for u16 and u32 with other integers and bool, which PyTorch refuses.
#include <doctest/doctest.h>

#include <string>

#include "ir/node.hpp"
#include "weft/ops.hpp"

using namespace weft;

namespace {

constexpr DType boolean = DType::boolean, u8 = DType::u8, i8 = DType::i8, i16 = DType::i16, u16 = DType::u16,
                i32 = DType::i32, u32 = DType::u32, i64 = DType::i64, f16 = DType::f16, bf16 = DType::bf16,
                f32 = DType::f32, f64 = DType::f64;
constexpr DType dtypes[] = {boolean, u8,  i8,  i16,  u16, i32,
                            u32,     i64, f16, bf16, f32, f64};  // rows and columns of the tables
constexpr int listed = std::size(dtypes);

// Two operands of one rank group.
constexpr DType equals[12][12] = {
    {boolean, u8, i8, i16, u16, i32, u32, i64, f16, bf16, f32, f64},
    {u8, u8, i16, i16, u16, i32, u32, i64, f16, bf16, f32, f64},
    {i8, i16, i8, i16, i32, i32, i64, i64, f16, bf16, f32, f64},
    {i16, i16, i16, i16, i32, i32, i64, i64, f16, bf16, f32, f64},
    {u16, u16, i32, i32, u16, i32, u32, i64, f16, bf16, f32, f64},
    {i32, i32, i32, i32, i32, i32, i64, i64, f16, bf16, f32, f64},
    {u32, u32, i64, i64, u32, i64, u32, i64, f16, bf16, f32, f64},
    {i64, i64, i64, i64, i64, i64, i64, i64, f16, bf16, f32, f64},
    {f16, f16, f16, f16, f16, f16, f16, f16, f16, f32, f32, f64},
    {bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, f32, bf16, f32, f64},
    {f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f64},
    {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64},
};
// A tensor with axes (row) and one without (column).
constexpr DType over_scalar[12][12] = {
    {boolean, u8, i8, i16, u16, i32, u32, i64, f16, bf16, f32, f64},
    {u8, u8, u8, u8, u8, u8, u8, u8, f16, bf16, f32, f64},
    {i8, i8, i8, i8, i8, i8, i8, i8, f16, bf16, f32, f64},
    {i16, i16, i16, i16, i16, i16, i16, i16, f16, bf16, f32, f64},
    {u16, u16, u16, u16, u16, u16, u16, u16, f16, bf16, f32, f64},
    {i32, i32, i32, i32, i32, i32, i32, i32, f16, bf16, f32, f64},
    {u32, u32, u32, u32, u32, u32, u32, u32, f16, bf16, f32, f64},
    {i64, i64, i64, i64, i64, i64, i64, i64, f16, bf16, f32, f64},
    {f16, f16, f16, f16, f16, f16, f16, f16, f16, f16, f16, f16},
    {bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16},
    {f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32},
    {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64},
};
// Any tensor (row) and a plain number: an integer, a floating one.
constexpr DType over_number[12][2] = {
    {i64, f32}, {u8, f32},  {i8, f32},  {i16, f32},   {u16, f32}, {i32, f32},
    {u32, f32}, {i64, f32}, {f16, f16}, {bf16, bf16}, {f32, f32}, {f64, f64},
};

std::string text(DType dtype) { return info(dtype).name; }

// What the table says must be what promote() says, either way round, and what a recorded operation has.
void check(Promotable a, Promotable b, DType expected) {
  CAPTURE(text(a.dtype));
  CAPTURE(text(b.dtype));
  CHECK(text(promote(a, b)) == text(expected));
  CHECK(text(promote(b, a)) == text(expected));
}
Tensor tensor(DType dtype, bool scalar) {
  return scalar ? full({}, 1, {.dtype = dtype}) : full({2}, 1, {.dtype = dtype});
}

}  // namespace

TEST_CASE("promotion: every pair of dtypes, of one rank group and of two") {
  for (int row = 0; row < listed; ++row)
    for (int column = 0; column < listed; ++column) {
      DType a = dtypes[row], b = dtypes[column];
      for (bool scalar : {false, true}) {
        check({a, scalar, false}, {b, scalar, false}, equals[row][column]);
        Tensor chosen = where(full({2}, 1, {.dtype = boolean}), tensor(a, scalar), tensor(b, scalar));
        CHECK(text(chosen.dtype()) == text(equals[row][column]));
        if (equals[row][column] != boolean)
          CHECK(text((tensor(a, scalar) * tensor(b, scalar)).dtype()) == text(equals[row][column]));
      }
      check({a, false, false}, {b, true, false}, over_scalar[row][column]);
      if (over_scalar[row][column] != boolean) {
        CHECK(text((tensor(a, false) - tensor(b, true)).dtype()) == text(over_scalar[row][column]));
        CHECK(text((tensor(b, true) - tensor(a, false)).dtype()) == text(over_scalar[row][column]));
      }
    }
}

TEST_CASE("promotion: plain numbers and Scalars take the tensor's dtype within its kind") {
  for (int row = 0; row < listed; ++row)
    for (bool scalar : {false, true}) {
      check({dtypes[row], scalar, false}, {i64, true, true}, over_number[row][0]);
      check({dtypes[row], scalar, false}, {f64, true, true}, over_number[row][1]);
      Tensor x = tensor(dtypes[row], scalar);
      CAPTURE(text(dtypes[row]));
      CHECK(text((x + 2).dtype()) == text(over_number[row][0]));
      CHECK(text((2 * x).dtype()) == text(over_number[row][0]));
      CHECK(text((x + 0.5).dtype()) == text(over_number[row][1]));
      CHECK(text((Scalar(0.5) * x).dtype()) == text(over_number[row][1]));
      CHECK(text(maximum(x, Index(3)).dtype()) == text(over_number[row][0]));
    }
}

TEST_CASE("promotion: the weak bit stays on numbers among themselves, and goes with the first tensor") {
  Tensor number = Scalar(0.5).tensor();
  CHECK(type_of(number).weak);
  CHECK(type_of((Scalar(0.5) * Scalar(2.0)).tensor()).weak);
  CHECK(type_of(exp(number)).weak);
  CHECK_FALSE(type_of(number + ones({})).weak);
  CHECK_FALSE(type_of(number + ones({3})).weak);
  CHECK_FALSE(type_of(where(ones({2}) < 3, number, number)).weak);
}

TEST_CASE("promotion: integers that are divided, and functions of floats, compute in f32") {
  for (DType dtype : {u8, i32, i64}) {
    CHECK(text((tensor(dtype, false) / tensor(dtype, false)).dtype()) == "f32");
    CHECK(text(exp(tensor(dtype, false)).dtype()) == "f32");
    CHECK(text(floor_divide(tensor(dtype, false), tensor(dtype, false)).dtype()) == text(dtype));
  }
  CHECK(text(exp(tensor(boolean, false)).dtype()) == "f32");
  CHECK(text(exp(tensor(bf16, false)).dtype()) == "bf16");
  CHECK(text((tensor(i64, false) / tensor(f64, true)).dtype()) == "f64");
}

TEST_CASE("promotion: a float of 8 bits meets its own dtype and plain numbers, and no other dtype") {
  for (const DType narrow : {DType::f8e4m3, DType::f8e5m2})
    for (int row = 0; row < dtype_count; ++row) {
      const auto other = static_cast<DType>(row);
      for (bool scalar : {false, true})
        for (bool other_scalar : {false, true}) {
          const Promotable a{narrow, scalar, false}, b{other, other_scalar, false};
          CAPTURE(text(other));
          if (other == narrow) {
            CHECK(promote(a, b) == narrow);
            continue;
          }
          CHECK_THROWS_WITH_AS(promote(a, b), doctest::Contains("a float of 8 bits is cast first"), Error);
          CHECK_THROWS_WITH_AS(promote(b, a), doctest::Contains("a float of 8 bits is cast first"), Error);
        }
      check({narrow, false, false}, {i64, true, true}, narrow);
      check({narrow, true, false}, {f64, true, true}, narrow);
    }
}

TEST_CASE("sizes in bytes are asked of the dtype's storage") {
  for (int row = 0; row < listed; ++row)
    for (std::int64_t count : {0, 1, 7, 1000})
      CHECK(storage_bytes(dtypes[row], count) * 8 == static_cast<std::size_t>(count * info(dtypes[row]).bits));
  // Made up: two elements a byte, and four in three bytes. The last unit is whole.
  constexpr DTypeInfo four_bits{"i4", 4, 2, DTypeKind::integer}, six_bits{"f6", 6, 4, DTypeKind::floating};
  const Dim n = dims::symbol(0, 0);
  struct {
    std::int64_t count, of_four_bits, of_six_bits;
  } table[] = {{0, 0, 0}, {1, 1, 3}, {2, 1, 3}, {3, 2, 3}, {4, 2, 3}, {5, 3, 6}, {1001, 501, 753}};
  for (const auto& [count, bytes_of_four, bytes_of_six] : table) {
    CAPTURE(count);
    CHECK(storage_bytes(four_bits, count) == bytes_of_four);
    CHECK(storage_bytes(six_bits, count) == bytes_of_six);
    const std::int64_t symbols[] = {count};
    CHECK(dims::evaluate(storage_bytes(four_bits, n), symbols) == bytes_of_four);
    CHECK(dims::evaluate(storage_bytes(six_bits, n), symbols) == bytes_of_six);
  }
  CHECK(storage_bytes(info(f32), n).same(n * Dim(4)));
}
