// Every pointwise primitive of weft/ops.def, on every dtype of its class, at every placement of its operands in memory.
#include "interpret/reference_number.hpp"
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
  if (only_holds(dtype) && (dtypes == DTypeClass::arithmetic || dtypes == DTypeClass::floating)) return false;
  if (dtypes == DTypeClass::arithmetic) return dtype != DType::boolean;
  if (dtypes == DTypeClass::floating || dtypes == DTypeClass::predicate) return is_floating(dtype);
  if (dtypes == DTypeClass::bits) return !is_floating(dtype);
  if (dtypes == DTypeClass::integers) return is_integer(dtype);
  return true;
}

// What IEEE rounds correctly, and what moves or compares bits, is exact, also through f32 for the 16-bit floats, whose
// digits are less than half of f32's. Functions of floats are within the bound that the lanes state; rounded to 16 bits
// that leaves one ULP.
Bound bound_of(const Case& row, DType dtype) {
  static const std::string rounded[] = {"div", "sqrt", "reciprocal"};
  bool exact = row.dtypes != DTypeClass::floating && row.name != "pow";
  for (const std::string& name : rounded) exact = exact || row.name == name;
  if (exact || !is_floating(dtype)) return {};
  if (info(dtype).bits == 16) return {1};
  // Sums of terms that cancel beside the zeros, and a power by repeated products.
  if (dtype == DType::f64 && (row.name == "lgamma" || row.name == "digamma")) return {8, {}, 0x1p-49};
  if (dtype == DType::f64 && row.name == "polygamma") return {32, {}, 0x1p-49};
  return {dtype == DType::f64 && (row.name == "tan" || row.name == "erfc") ? 6.0 : 4.0};
}

DType operand_dtype(const Case& row, int operand, DType dtype) {
  return row.dtypes == DTypeClass::select && operand == 0 ? DType::boolean : dtype;
}

// Left of 0 polygamma is a difference of sums: its own test says how exact.
Tensor applied(const Case& row, std::span<const Tensor> x) {
  if (row.op == Op::polygamma) return polygamma(x[0], abs(x[1]));
  return record(row.op, x, {}, {}, {});
}

constexpr std::int64_t shapes[][2] = {{0, 5}, {5, 0}, {1, 1}, {1, 16}, {3, 5}, {2, 17}, {9, 31}};

}  // namespace

TEST_CASE("pointwise primitives: every dtype and placement agrees with the reference") {
  unsigned seed = 1;
  int combinations = 0;
  for (const Case& row : cases)
    for (DType dtype : all_dtypes) {
      if (!takes(row.dtypes, dtype)) continue;
      for (const auto& [rows, columns] : shapes)
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
            return applied(row, operands);
          };
          INFO(row.name, " on ", text(dtype), "[", rows, ",", columns, "], ", std::string(places[0]->name), ", seed ",
               seed);
          check(function, inputs, bound_of(row, dtype));
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
            if (is_integer(dtype)) input.integers.back() = reference::wrap(dtype, input.integers.back());
          }
        }
      for (Literal& input : inputs)
        input.type.shape = Shape::of(static_cast<std::int64_t>(edges.size() * edges.size()));
      inputs.resize(static_cast<std::size_t>(row.arity));
      INFO(row.name, " on ", text(dtype));
      check([&](std::span<const Tensor> x) { return applied(row, x); }, inputs, bound_of(row, dtype));
    }
}

TEST_CASE("polygamma left of 0, of orders beyond its range, and at poles") {
  // By mpmath.psi(order, x).
  constexpr struct {
    double order, x, value;
  } table[] = {
      {1, -0.3, 13.945160267805722},
      {1, -7.75, 19.61814433435229},
      {1, -1e-10, 1e+20},
      {1, -100.25, 19.729283325349364},
      {2, -0.25, 122.69736678366236},
      {2, -3.1, 1998.5839263270764},
      {3, -2.6, 283.53838059773574},
      {3, -12.5, 194.81727441519996},
      {5, -0.9, 120000295.1086819},
      {30, 0.5, -5.696261790319176e+41},
      {30, 40.0, -1.0912335543822422e-17},
      {30, 1000.0, -8.975073648140491e-60},
      {1, 0, INFINITY},
      {1, -3, INFINITY},
      {2, -3, -INFINITY},
      {2, INFINITY, 0},
      {31, 1, NAN},
      {-1, 1, NAN},
      {1, -INFINITY, NAN},
      {1.75, 2, 0.6449340668482264},
  };
  for (const auto& row : table) {
    INFO(row.order, ", ", row.x);
    const auto number = [](double value) { return full({}, value, {DType::f64}); };
    const double y = polygamma(number(row.order), number(row.x)).item();
    if (std::isfinite(row.value))
      CHECK(std::abs(y - row.value) <= 1e-13 * std::abs(row.value));
    else
      CHECK((std::isnan(row.value) ? std::isnan(y) : y == row.value));
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
        for (const auto& [rows, columns] : shapes) {
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
                          {DType::i8, DType::u8},
                          {DType::u8, DType::i8},
                          {DType::boolean, DType::i8},
                          {DType::i8, DType::boolean},
                          {DType::i16, DType::u16},
                          {DType::u16, DType::bf16},
                          {DType::u32, DType::i32},
                          {DType::u32, DType::f32},
                          {DType::f16, DType::bf16}}) {
    Literal input = values.make(from, Shape::of(37), from == DType::i32);
    INFO(text(from), " as ", text(to));
    check([to = to](std::span<const Tensor> x) { return bitcast(x[0], to); }, std::span(&input, 1));
  }
}
