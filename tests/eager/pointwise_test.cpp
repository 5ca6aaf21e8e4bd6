// Every pointwise primitive of weft/ops.def, on every dtype of its class, at every placement of its operands in memory.
#include "tests/eager/check.hpp"

using namespace weft;
using namespace weft::test;

namespace {

struct Case {
  Op op;
  std::string name;
  int arity;
  DTypeClass dtypes;
};
const Case cases[] = {
#define WEFT_POINTWISE(name, arity, dtypes, ...) {Op::name, #name, arity, DTypeClass::dtypes},
#include "weft/ops.def"
};

bool takes(DTypeClass dtypes, DType dtype) {
  if (dtypes == DTypeClass::arithmetic) return dtype != DType::boolean;
  if (dtypes == DTypeClass::floating || dtypes == DTypeClass::predicate) return is_floating(dtype);
  if (dtypes == DTypeClass::bits) return !is_floating(dtype);
  return true;
}

// What IEEE rounds correctly, and what moves or compares bits, is exact, also through f32 for the 16-bit floats, whose
// digits are less than half of f32's. Functions of floats are within the bound that the lanes state; rounded to 16 bits
// that leaves one ULP.
double bound_of(const Case& row, DType dtype) {
  static const std::string rounded[] = {"div", "sqrt", "reciprocal"};
  bool exact = row.dtypes != DTypeClass::floating && row.name != "pow";
  for (const std::string& name : rounded) exact = exact || row.name == name;
  if (exact || !is_floating(dtype)) return 0;
  return info(dtype).bits == 16 ? 1 : 4;
}

DType operand_dtype(const Case& row, int operand, DType dtype) {
  return row.dtypes == DTypeClass::select && operand == 0 ? DType::boolean : dtype;
}

constexpr std::int64_t shapes[][2] = {{0, 5}, {5, 0}, {1, 1}, {1, 16}, {3, 5}, {2, 17}, {9, 31}};

}  // namespace

TEST_CASE("pointwise primitives: every dtype and placement agrees with the reference") {
  unsigned seed = 1;
  int combinations = 0;
  for (const Case& row : cases)
    for (DType dtype : all_dtypes) {
      if (!takes(row.dtypes, dtype)) continue;
      for (auto [rows, columns] : shapes)
        for (std::size_t first = 0; first < std::size(placements); ++first) {
          Values values(++seed);
          std::vector<Literal> inputs;
          std::vector<const Placement*> places;
          for (int i = 0; i < row.arity; ++i) {
            places.push_back(&placements[(first * (2 * static_cast<std::size_t>(i) + 1)) % std::size(placements)]);
            inputs.push_back(values.make(operand_dtype(row, i, dtype), places.back()->base(rows, columns)));
          }
          Function function = [&, rows = rows, columns = columns](std::span<const Tensor> x) {
            std::vector<Tensor> operands;
            for (std::size_t i = 0; i < x.size(); ++i) operands.push_back(places[i]->view(x[i], rows, columns));
            return record(row.op, operands, {}, {}, {});
          };
          INFO(row.name, " on ", text(dtype), "[", rows, ",", columns, "], ", std::string(places[0]->name), ", seed ",
               seed);
          check(function, inputs, {bound_of(row, dtype)});
          ++combinations;
        }
    }
  CHECK(combinations > 5000);
}

TEST_CASE("pointwise primitives: every pair of edge values") {
  std::vector<double> edges = {0.0,   -0.0,   1,      -1,    2,   -2,   3,     -3,       0.5,       -0.5,
                               0.1,   7,      -7,     1.5,   2.5, -2.5, 1e-45, -1e-42,   1e-30,     1e30,
                               -1e30, 3.4e38, 1e-308, 1e300, 100, -100, 1e6,   INFINITY, -INFINITY, NAN};
  for (const Case& row : cases)
    for (DType dtype : all_dtypes) {
      if (!takes(row.dtypes, dtype) || row.arity > 2) continue;
      std::vector<Literal> inputs(2, Literal{Type{dtype, false, {}, {}}});
      for (double a : edges)
        for (double b : edges) {
          std::size_t i = 0;
          for (double x : {a, b}) {
            Literal& input = inputs[i++];
            if (is_floating(dtype))
              input.reals.push_back(round_to(dtype, x));
            else if (dtype == DType::boolean)
              input.integers.push_back(x != 0);
            else if (!std::isfinite(x))
              input.integers.push_back(x > 0 ? INT32_MAX : INT32_MIN);
            else
              input.integers.push_back(static_cast<std::int64_t>(std::fmin(std::fmax(x, -100), 100)));
            if (dtype == DType::u8) input.integers.back() &= 255;
          }
        }
      for (Literal& input : inputs)
        input.type.shape = Shape::of(static_cast<std::int64_t>(edges.size() * edges.size()));
      inputs.resize(static_cast<std::size_t>(row.arity));
      INFO(row.name, " on ", text(dtype));
      check([&](std::span<const Tensor> x) { return record(row.op, x, {}, {}, {}); }, inputs, {bound_of(row, dtype)});
    }
}

TEST_CASE("pointwise primitives: more elements than one block and one thread take") {
  Values values(7);
  for (DType dtype : {DType::f32, DType::bf16, DType::i64})
    for (const Placement& place : placements) {
      constexpr std::int64_t rows = 61, columns = 1091;
      std::vector<Literal> inputs = {values.make(dtype, place.base(rows, columns)),
                                     values.make(dtype, Shape::of(columns))};
      INFO(text(dtype), " ", std::string(place.name));
      check([&](std::span<const Tensor> x) { return place.view(x[0], rows, columns) * 3 - x[1]; }, inputs);
    }
}

TEST_CASE("casts: every pair of dtypes") {
  Values values(11);
  for (DType from : all_dtypes)
    for (DType to : all_dtypes)
      for (std::int64_t count : {0, 1, 15, 16, 333}) {
        Literal input = values.make(from, Shape::of(count));
        if (from == DType::i64 && count == 333)  // ties, and numbers beyond the digits of a double
          for (std::int64_t& x : input.integers) x = (x << 52) + (std::int64_t{1} << 44) + values.below(3) - 1;
        INFO(text(from), " to ", text(to), ", ", count);
        check([&](std::span<const Tensor> x) { return cast(x[0], to); }, std::span(&input, 1));
      }
}

TEST_CASE("casts: every pair of dtypes at every placement") {
  Values values(12);
  for (DType from : all_dtypes)
    for (DType to : all_dtypes)
      for (const Placement& place : placements)
        for (auto [rows, columns] : shapes) {
          Literal input = values.make(from, place.base(rows, columns));
          INFO(text(from), " to ", text(to), "[", rows, ",", columns, "], ", std::string(place.name));
          check([&, rows = rows,
                 columns = columns](std::span<const Tensor> x) { return cast(place.view(x[0], rows, columns), to); },
                std::span(&input, 1));
        }
}

TEST_CASE("casts: all 16-bit floats, and the halves between them") {
  for (DType half : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> bits;
    for (int i = 0; i < 65536; ++i) bits.push_back(static_cast<std::uint16_t>(i));
    Literal input{Type{DType::i32, false, {}, Shape::of(65536)}};
    Tensor raw = half == DType::f16
                     ? from_span(std::span(reinterpret_cast<const float16*>(bits.data()), bits.size()), {65536})
                     : from_span(std::span(reinterpret_cast<const bfloat16*>(bits.data()), bits.size()), {65536});
    Literal wide = literal_of(cast(raw, DType::f64)), expected = literal_of(raw);
    expected.type.dtype = DType::f64;
    CHECK(difference(wide, expected, {}) == "");
    // Between each number and the next, just below, at and just above the middle.
    Literal middles{Type{DType::f64, false, {}, {}}};
    for (std::size_t i = 1; i < expected.reals.size(); ++i) {
      double a = expected.reals[i - 1], b = expected.reals[i], middle = a + (b - a) / 2;
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      for (double x : {std::nextafter(middle, a), middle, std::nextafter(middle, b)}) middles.reals.push_back(x);
    }
    middles.type.shape = Shape::of(static_cast<std::int64_t>(middles.reals.size()));
    for (DType from : {DType::f64, DType::f32}) {
      INFO(text(from), " to ", text(half));
      check([&](std::span<const Tensor> x) { return cast(cast(x[0], from), half); }, std::span(&middles, 1));
    }
  }
}

TEST_CASE("bitcast keeps the bits") {
  Values values(13);
  for (auto [from, to] : {std::pair{DType::f32, DType::i32},
                          {DType::i32, DType::f32},
                          {DType::f64, DType::i64},
                          {DType::u8, DType::boolean},
                          {DType::boolean, DType::u8},
                          {DType::f16, DType::bf16}}) {
    Literal input = values.make(from, Shape::of(37), from == DType::i32);
    INFO(text(from), " as ", text(to));
    check([to = to](std::span<const Tensor> x) { return bitcast(x[0], to); }, std::span(&input, 1));
  }
}
