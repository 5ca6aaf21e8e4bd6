// Generated C++ against plain loops: pointwise kernels over all dtypes and layouts, rows, columns, gathers, slots.
#include "codegen/cpp.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/options.hpp"
#include "tests/codegen/cpp_support.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr Int tail_sizes[] = {0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 1000, 4096, 5000};

std::string numbered(const char* name, Int n) { return std::string(name) + "_" + std::to_string(n); }

loop::Kernel chain(DType dtype, Int n) {
  KernelBuilder b(numbered("chain", n) + "_" + info(dtype).name);
  const Dim i = b.lanes(b.outer(n));
  const int x = b.input(dtype, n), y = b.input(dtype, n), out = b.output(dtype, n), flags = b.output(DType::boolean, n);
  const int a = b.load(x, i), c = b.load(y, i);
  int v = b.apply(Op::add, b.apply(Op::mul, a, c), b.constant(dtype, 3));
  v = b.apply(Op::maximum, b.apply(Op::sub, v, c), b.apply(Op::abs, a));
  const int less = b.apply(Op::less, a, c);
  v = b.apply(Op::where, b.apply(Op::bitwise_or, less, b.apply(Op::equal, v, a)), v, b.apply(Op::neg, c));
  b.store(out, i, v);
  b.store(flags, i, b.apply(Op::bitwise_xor, less, b.apply(Op::less_equal, v, c)));
  return b.kernel();
}

loop::Kernel softmax(Dim rows, Dim columns, const std::string& name) {
  KernelBuilder b(name);
  const Dim r = b.outer(rows), c = b.lanes(b.inner(columns)), at = r * columns + c;
  const int x = b.input(DType::f32, rows * columns), y = b.output(DType::f32, rows * columns);
  const int v = b.load(x, at);
  const int e = b.apply(Op::exp, b.apply(Op::sub, v, b.reduce(Op::amax, v)));
  b.store(y, at, b.apply(Op::div, e, b.reduce(Op::sum, e)));
  return b.kernel();
}

loop::Kernel layer_norm(Int rows, Int columns) {
  KernelBuilder b(numbered("layer_norm", columns));
  const Dim r = b.outer(rows), c = b.lanes(b.inner(columns)), at = r * Dim(columns) + c;
  const int x = b.input(DType::f32, rows * columns), gain = b.input(DType::f32, columns);
  const int y = b.output(DType::f32, rows * columns), deviation = b.output(DType::f32, rows);
  const int count = b.constant(DType::f32, static_cast<double>(columns)), v = b.load(x, at);
  const int mean = b.apply(Op::div, b.reduce(Op::sum, v), count);
  const int d = b.apply(Op::sub, v, mean);
  const int variance = b.apply(Op::div, b.reduce(Op::sum, b.apply(Op::mul, d, d)), count);
  const int scale = b.apply(Op::rsqrt, b.apply(Op::add, variance, b.constant(DType::f32, 1e-5)));
  b.store(y, at, b.apply(Op::mul, b.apply(Op::mul, d, scale), b.load(gain, c)));
  b.store(deviation, r, scale);
  return b.kernel();
}

}  // namespace

TEST_CASE("pointwise chains over each dtype at sizes around the lanes and the blocks") {
  std::vector<Trial> trials;
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::i32, DType::u8})
    for (const Int n : tail_sizes)
      if (dtype == DType::f32 || n == 0 || n == 15 || n == 17 || n == 5000) trials.emplace_back(chain(dtype, n));
  check_all(trials);
}

constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::i64, DType::u32, DType::i32,
                                DType::u16, DType::i16, DType::i8,  DType::u8,  DType::boolean};

TEST_CASE("every pointwise primitive of the table on its dtypes") {
  std::vector<Trial> trials;
  for (int number = 0; number < op_count; ++number) {
    const Op op = static_cast<Op>(number);
    const OpInfo& row = info(op);
    if (row.kind != OpKind::pointwise) continue;
    for (const DType dtype : all_dtypes) {
      const bool floats = row.dtypes == DTypeClass::floating || row.dtypes == DTypeClass::predicate;
      if (floats && !is_floating(dtype)) continue;
      if (row.dtypes == DTypeClass::arithmetic && dtype == DType::boolean) continue;
      if (row.dtypes == DTypeClass::bits && is_floating(dtype)) continue;
      if (row.dtypes == DTypeClass::integers && !is_integer(dtype)) continue;
      KernelBuilder b(std::string("op_") + row.name + "_" + info(dtype).name);
      const Int n = 83;
      const Dim i = b.lanes(b.outer(n));
      int args[3] = {-1, -1, -1};
      for (int a = 0; a < row.arity; ++a) {
        const DType operand = row.dtypes == DTypeClass::select && a == 0 ? DType::boolean : dtype;
        args[a] = b.load(b.input(operand, n), i);
      }
      const int result = b.apply(op, args[0], args[1], args[2]);
      const bool answers = row.dtypes == DTypeClass::comparison || row.dtypes == DTypeClass::predicate;
      b.store(b.output(answers ? DType::boolean : dtype, n), i, result);
      trials.emplace_back(b.kernel());
    }
  }
  check_all(trials);
}

TEST_CASE("casts between the dtypes") {
  std::vector<Trial> trials;
  for (const DType from : all_dtypes)
    for (const DType to : all_dtypes) {
      // Negative numbers are out of range: the lanes' tests.
      if (is_floating(from) && is_integer(to) && integer_range(to).least == 0) continue;
      KernelBuilder b(std::string("cast_") + info(from).name + "_" + info(to).name);
      const Dim i = b.lanes(b.outer(37));
      b.store(b.output(to, 37), i, b.cast(to, b.load(b.input(from, 37), i)));
      trials.emplace_back(b.kernel());
    }
  check_all(trials);
}

TEST_CASE("broadcast, transposed, strided, reversed and divided indices") {
  std::vector<Trial> trials;
  for (const Int columns : {Int{1}, Int{7}, Int{16}, Int{33}, Int{5000}}) {
    const Int rows = columns == 5000 ? 3 : 5;
    KernelBuilder b(numbered("layouts", columns));
    const Dim r = b.outer(rows), c = b.lanes(b.outer(columns)), at = r * Dim(columns) + c;
    const int whole = b.input(DType::f32, rows * columns), row = b.input(DType::f32, columns),
              column = b.input(DType::f32, rows);
    const int turned = b.input(DType::f32, rows * columns), wide = b.input(DType::f32, rows * columns * 2);
    const int one = b.input(DType::f32, 1), y = b.output(DType::f32, rows * columns),
              z = b.output(DType::f32, rows * columns);
    int v = b.apply(Op::add, b.load(whole, at), b.load(row, c));
    v = b.apply(Op::mul, v, b.load(column, r));
    v = b.apply(Op::add, v, b.load(turned, c * Dim(rows) + r));
    v = b.apply(Op::sub, v, b.load(wide, at * Dim(2) + Dim(1)));
    v = b.apply(Op::mul, v, b.load(one, 0));
    b.store(y, at, v);
    b.store(z, r * Dim(columns) + (Dim(columns - 1) - c),
            b.apply(Op::add, v, b.load(whole, r * Dim(columns) + (c * Dim(3) + Dim(2)) % Dim(columns))));
    trials.emplace_back(b.kernel());
  }
  check_all(trials);
}

TEST_CASE("transposed operands under further axes and over several blocks") {
  std::vector<Trial> trials;
  for (const auto& [batch, rows, columns] : {std::array<Int, 3>{1, 40, 33}, {3, 17, 20}, {2, 3, 5000}, {2, 16, 9000}}) {
    KernelBuilder b("turned_" + std::to_string(rows) + "_" + std::to_string(columns));
    const Dim i = b.outer(batch), r = b.outer(rows), c = b.lanes(b.outer(columns));
    const Int all = batch * rows * columns;
    const int x = b.input(DType::f32, all), per_row = b.input(DType::f32, rows), y = b.output(DType::f32, all),
              z = b.output(DType::f32, all);
    const int v = b.apply(Op::add, b.load(x, i * Dim(rows * columns) + c * Dim(rows) + r), b.load(per_row, r));
    b.store(y, (i * Dim(rows) + r) * Dim(columns) + c, v);
    b.store(z, (i * Dim(columns) + c) * Dim(rows) + r, b.apply(Op::neg, v));
    trials.emplace_back(b.kernel());
  }
  check_all(trials);
}

TEST_CASE("constants keep their bits, and indices their values") {
  std::vector<Trial> trials;
  KernelBuilder b("constants");
  const Int n = 21;
  const Dim i = b.lanes(b.outer(n));
  const double numbers[] = {0.1, -0.0, 1e-310, 16777217, INFINITY, -INFINITY, NAN, 1e300};
  for (const double number : numbers) {
    b.store(b.output(DType::f64, n), i, b.constant(DType::f64, number));
    b.store(b.output(DType::f32, n), i, b.constant(DType::f32, number));
  }
  b.store(b.output(DType::i64, n), i, b.index(i * Dim(3) + Dim(1000000000000)));
  b.store(b.output(DType::i64, n), i, b.index(i / Dim(4) + i % Dim(5) * Dim(100)));
  b.store(b.output(DType::i32, n), i, b.constant(DType::i32, -2147483648.0));
  b.store(b.output(DType::boolean, n), i, b.constant(DType::boolean, 1));
  trials.emplace_back(b.kernel());
  check_all(trials);
  double minus_zero;
  std::memcpy(&minus_zero, trials[0].data<double>(2), sizeof minus_zero);
  CHECK(std::signbit(minus_zero));
}

TEST_CASE("softmax and layer normalization at sizes around the lanes and the chunks") {
  std::vector<Trial> trials;
  for (const Int n : tail_sizes) {
    if (n > 0) trials.emplace_back(softmax(3, n, numbered("softmax", n)));
    trials.emplace_back(layer_norm(3, n));
  }
  check_all(trials);
}

TEST_CASE("each reduction over rows, columns and everything") {
  std::vector<Trial> trials;
  for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax})
    for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
      for (const Int n : {Int{1}, Int{17}, Int{64}, Int{130}, Int{9000}}) {
        if (n > 17 && dtype != DType::f32 && dtype != DType::i64) continue;
        if (op == Op::prod && n > 130) continue;
        const DType result =
            op == Op::argmax || (!is_floating(dtype) && (op == Op::sum || op == Op::prod)) ? DType::i64 : dtype;
        const std::string name = std::string(info(op).name) + "_" + info(dtype).name;
        {
          KernelBuilder b(numbered("row", n) + name);
          const Dim r = b.outer(3), c = b.lanes(b.inner(n));
          b.store(b.output(result, 3), r, b.reduce(op, b.load(b.input(dtype, 3 * n), r * Dim(n) + c), c));
          trials.emplace_back(b.kernel());
        }
        if (n <= 130) {
          KernelBuilder b(numbered("column", n) + name);
          const Dim r = b.inner(n), c = b.lanes(b.outer(37));
          b.store(b.output(result, 37), c, b.reduce(op, b.load(b.input(dtype, 37 * n), r * Dim(37) + c), r));
          trials.emplace_back(b.kernel());
        }
        if (n == 9000) {
          KernelBuilder b(numbered("all", n) + name);
          const Dim c = b.lanes(b.inner(n));
          b.store(b.output(result, 1), 0, b.reduce(op, b.load(b.input(dtype, n), c), c));
          trials.emplace_back(b.kernel());
        }
      }
  check_all(trials);
}

TEST_CASE("NaN, infinities and ties in reductions by row and by column") {
  std::vector<Trial> trials;
  const Int n = 70, kept = 20;
  for (const bool by_columns : {false, true})
    for (const Op op : {Op::amax, Op::amin, Op::argmax, Op::sum}) {
      KernelBuilder b(std::string(by_columns ? "special_columns_" : "special_rows_") + info(op).name);
      const Dim first = by_columns ? b.inner(n) : b.outer(kept);
      const Dim second = b.lanes(by_columns ? b.outer(kept) : b.inner(n));
      const Dim along = by_columns ? first : second, other = by_columns ? second : first;
      const int x = b.input(DType::f32, n * kept);
      const int v = b.load(x, first * Dim(by_columns ? kept : n) + second);
      b.store(b.output(op == Op::argmax ? DType::i64 : DType::f32, kept), other, b.reduce(op, v, along));
      trials.emplace_back(b.kernel());
      float* data = trials.back().data<float>(x);
      const auto at = [&](Int k, Int i) -> float& { return data[by_columns ? i * kept + k : k * n + i]; };
      at(0, 69) = NAN;
      at(1, 3) = at(1, 40) = NAN;
      at(2, 17) = at(2, 33) = at(2, 65) = 5;  // ties on one lane and on different ones
      at(3, 20) = INFINITY, at(3, 4) = -INFINITY;
      for (Int i = 0; i < n; ++i) at(4, i) = -INFINITY, at(5, i) = i % 2 ? -0.0F : 0.0F, at(6, i) = -1;
    }
  check_all(trials);
}

TEST_CASE("a reduction over nothing") {
  std::vector<Trial> trials;
  for (const bool by_columns : {false, true}) {
    KernelBuilder b(by_columns ? "empty_columns" : "empty_rows");
    const Dim first = by_columns ? b.inner(0) : b.outer(20);
    const Dim second = b.lanes(by_columns ? b.outer(20) : b.inner(0));
    const Dim kept = by_columns ? second : first;
    const int v = b.load(b.input(DType::f32, 0), first * Dim(20) + second);
    b.store(b.output(DType::f32, 20), kept, b.reduce(Op::sum, v));
    b.store(b.output(DType::f32, 20), kept, b.reduce(Op::prod, v));
    trials.emplace_back(b.kernel());
  }
  check_all(trials);
}

TEST_CASE("columns: many rows, several strips, values before and after, more than one reduction") {
  std::vector<Trial> trials;
  for (const Int rows : {Int{5}, Int{64}, Int{65}, Int{200}})
    for (const Int columns : {Int{1}, Int{30}, Int{600}, Int{4200}}) {
      if (rows > 65 && columns > 1000) continue;
      KernelBuilder b("batch_norm_" + std::to_string(rows) + "_" + std::to_string(columns));
      const Dim r = b.inner(rows), c = b.lanes(b.outer(columns)), at = r * Dim(columns) + c;
      const int x = b.input(DType::f32, rows * columns), gain = b.input(DType::f32, columns),
                per_row = b.input(DType::f32, rows);
      const int y = b.output(DType::f32, rows * columns), means = b.output(DType::f32, columns),
                best = b.output(DType::f32, columns);
      const int count = b.constant(DType::f32, static_cast<double>(rows));
      const int v = b.apply(Op::mul, b.load(x, at), b.load(per_row, r));
      const int mean = b.apply(Op::div, b.reduce(Op::sum, v), count), d = b.apply(Op::sub, v, mean);
      const int variance = b.apply(Op::div, b.reduce(Op::sum, b.apply(Op::mul, d, d)), count);
      const int scale = b.apply(Op::rsqrt, b.apply(Op::add, variance, b.constant(DType::f32, 1)));
      b.store(y, at, b.apply(Op::mul, b.apply(Op::mul, d, scale), b.load(gain, c)));
      b.store(means, c, mean);
      b.store(best, c, b.reduce(Op::amax, v));
      trials.emplace_back(b.kernel());
    }
  check_all(trials);
}

TEST_CASE("several outer and several inner axes") {
  std::vector<Trial> trials;
  for (const Int last : {Int{3}, Int{16}, Int{50}, Int{5000}}) {
    const Int depth = last > 100 ? 2 : 4;
    {  // sum over axes 1 and 3 of four, then normalize
      KernelBuilder b(numbered("inner_axes", last));
      const Dim i = b.outer(2), j = b.outer(3), k = b.inner(depth), l = b.lanes(b.inner(last));
      const Dim at = i * Dim(depth * 3 * last) + k * Dim(3 * last) + j * Dim(last) + l;
      const Int all = 2 * 3 * depth * last;
      const int x = b.input(DType::f32, all), s = b.input(DType::f32, depth), y = b.output(DType::f32, all),
                total = b.output(DType::f32, 6);
      const int e = b.apply(Op::exp, b.apply(Op::mul, b.load(x, at), b.load(s, k)));
      const int sum = b.reduce(Op::sum, e);
      b.store(y, at, b.apply(Op::div, e, sum));
      b.store(total, i * Dim(3) + j, sum);
      trials.emplace_back(b.kernel());
    }
    {  // columns under two reduced axes and two kept ones
      KernelBuilder b(numbered("column_axes", last));
      const Dim i = b.outer(2), k = b.inner(depth), m = b.inner(20), l = b.lanes(b.outer(last));
      const Dim at = ((i * Dim(depth) + k) * Dim(20) + m) * Dim(last) + l;
      const int x = b.input(DType::f32, 2 * depth * 20 * last), y = b.output(DType::f32, 2 * last);
      b.store(y, i * Dim(last) + l, b.reduce(Op::sum, b.load(x, at)));
      trials.emplace_back(b.kernel());
    }
    {  // pointwise over three axes
      KernelBuilder b(numbered("outer_axes", last));
      const Dim i = b.outer(2), j = b.outer(3), l = b.lanes(b.outer(last));
      const int x = b.input(DType::f32, 6 * last), w = b.input(DType::f32, 2 * last),
                y = b.output(DType::f32, 6 * last);
      const Dim at = (i * Dim(3) + j) * Dim(last) + l;
      b.store(y, at, b.apply(Op::mul, b.load(x, at), b.load(w, i * Dim(last) + l)));
      trials.emplace_back(b.kernel());
    }
  }
  check_all(trials);
}

TEST_CASE("gathers by row, by element, and after a reduction") {
  std::vector<Trial> trials;
  const Int rows = 9, width = 21, table = 7;
  {
    KernelBuilder b("gather_rows");
    const Dim r = b.outer(rows), c = b.lanes(b.outer(width));
    const int index = b.load(b.input(DType::i64, rows), r);
    b.store(b.output(DType::f32, rows * width), r * Dim(width) + c,
            b.load(b.input(DType::f32, table * width), b.value(index, table) * Dim(width) + c));
    trials.emplace_back(b.kernel());
  }
  {
    KernelBuilder b("gather_elements");
    const Dim r = b.lanes(b.outer(rows * 4));
    const int index = b.load(b.input(DType::i64, rows * 4), r), x = b.input(DType::f64, rows * 4 * table);
    b.store(b.output(DType::f64, rows * 4), r, b.load(x, r * Dim(table) + b.value(index, table)));
    b.store(b.output(DType::f64, rows * 4), r, b.load(x, b.value(index, table) / Dim(2) + r));
    trials.emplace_back(b.kernel());
  }
  {
    KernelBuilder b("gather_best");
    const Dim r = b.outer(rows), c = b.lanes(b.inner(width)), at = r * Dim(width) + c;
    const int x = b.input(DType::f32, rows * width);
    const int best = b.reduce(Op::argmax, b.load(x, at), c);
    b.store(b.output(DType::f32, rows), r, b.load(x, r * Dim(width) + b.value(best, width)));
    b.store(b.output(DType::f32, rows * width), at,
            b.apply(Op::sub, b.load(x, at),
                    b.load(b.input(DType::f32, width * width), b.value(best, width) * Dim(width) + c)));
    trials.emplace_back(b.kernel());
  }
  check_all(trials);
}

TEST_CASE("a kernel of one element") {
  std::vector<Trial> trials;
  KernelBuilder b("one_element");
  const int x = b.load(b.input(DType::f32, 1), 0), t = b.load(b.input(DType::i64, 1), 0),
            f = b.load(b.input(DType::boolean, 1), 0);
  b.store(b.output(DType::f32, 1), 0, b.apply(Op::where, f, b.apply(Op::exp, x), x));
  b.store(b.output(DType::i64, 1), 0, b.apply(Op::add, t, b.constant(DType::i64, 1)));
  b.store(b.output(DType::boolean, 1), 0, b.apply(Op::bitwise_not, f));
  trials.emplace_back(b.kernel());
  check_all(trials);
}

TEST_CASE("a quotient of a negated number compiles for every ISA, optimized or not") {  // g++ 12 failed on SSE2 masks
  KernelBuilder b("negated_quotient");
  const int x = b.load(b.input(DType::f32, 1), 0), y = b.load(b.input(DType::f32, 1), 0);
  b.store(b.output(DType::f32, 1), 0, b.apply(Op::floor_divide, x, b.apply(Op::neg, y)));
  std::vector<Trial> trials;
  trials.emplace_back(b.kernel());
  const int optimization = options().kernel_optimization;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    for (const int level : {1, 3}) {
      if (isa > host_isa()) continue;
      options().kernel_optimization = level;
      std::shared_ptr<Library> library;
      CHECK_NOTHROW(trials[0].run(compile_all(trials, isa, library)[0]));
      CHECK(trials[0].compare() == "");
    }
  options().kernel_optimization = optimization;
}

TEST_CASE("one compiled kernel serves several sizes") {
  std::vector<Trial> trials;
  for (const auto& [rows, columns] : {std::pair<Int, Int>{3, 17}, {2, 4096}, {1, 9001}, {7, 1}}) {
    {
      KernelBuilder b("symbolic_softmax");
      const Dim m = b.size(), n = b.size(), r = b.outer(m), c = b.lanes(b.inner(n)), at = r * n + c;
      const int v = b.load(b.input(DType::f32, m * n), at);
      const int e = b.apply(Op::exp, b.apply(Op::sub, v, b.reduce(Op::amax, v)));
      b.store(b.output(DType::f32, m * n), at, b.apply(Op::div, e, b.reduce(Op::sum, e)));
      trials.emplace_back(b.kernel(), std::vector<Int>{rows, columns});
    }
    {
      KernelBuilder b("symbolic_transpose");
      const Dim m = b.size(), n = b.size(), r = b.outer(m), c = b.lanes(b.outer(n));
      b.store(b.output(DType::f32, m * n), r * n + c,
              b.apply(Op::add, b.load(b.input(DType::f32, m * n), c * m + r), b.load(b.input(DType::f32, n), c)));
      trials.emplace_back(b.kernel(), std::vector<Int>{rows, columns});
    }
    {
      KernelBuilder b("symbolic_columns");
      const Dim m = b.size(), n = b.size(), r = b.inner(m), c = b.lanes(b.outer(n)), at = r * n + c;
      const int v = b.load(b.input(DType::f32, m * n), at), sum = b.reduce(Op::sum, v);
      b.store(b.output(DType::f32, m * n), at, b.apply(Op::sub, v, sum));
      trials.emplace_back(b.kernel(), std::vector<Int>{columns, rows});
      trials.emplace_back(b.kernel(), std::vector<Int>{rows, columns});
    }
  }
  check_all(trials);
}

TEST_CASE("the bits do not depend on how units are shared out, nor, for + and *, on the ISA") {
  std::vector<Trial> trials;
  trials.emplace_back(layer_norm(20, 5000));
  {
    KernelBuilder b("shared_columns");
    const Dim i = b.outer(3), r = b.inner(130), c = b.lanes(b.outer(9000)), at = (i * Dim(130) + r) * Dim(9000) + c;
    const int v = b.load(b.input(DType::f32, 3 * 130 * 9000), at);
    b.store(b.output(DType::f32, 3 * 9000), i * Dim(9000) + c, b.reduce(Op::sum, b.apply(Op::mul, v, v)));
    trials.emplace_back(b.kernel());
  }
  trials.emplace_back(chain(DType::f32, 30000));
  std::vector<std::vector<std::vector<std::byte>>> first;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > host_isa()) continue;
    std::shared_ptr<Library> library;
    const std::vector<runtime::KernelFunction> functions = compile_all(trials, isa, library);
    for (const int pieces : {1, 2, 3, 7})
      for (std::size_t t = 0; t < trials.size(); ++t) {
        trials[t].run(functions[t], pieces);
        if (first.size() <= t) first.push_back(trials[t].buffers);
        CHECK_MESSAGE(first[t] == trials[t].buffers, trials[t].kernel.name, " on ", name(isa), " in ", pieces);
      }
  }
}

TEST_CASE("16-bit floats are rounded at every operation, stored or not") {
  KernelBuilder b("half");
  const Int n = 35;
  const Dim i = b.lanes(b.outer(n));
  const int x = b.input(DType::bf16, n), half = b.input(DType::f16, n);
  const int sum = b.apply(Op::add, b.load(x, i), b.constant(DType::bf16, 0.1));
  b.store(b.output(DType::bf16, n), i, sum);
  b.store(b.output(DType::f32, n), i, b.cast(DType::f32, sum));
  b.store(b.output(DType::f16, n), i, b.apply(Op::mul, b.load(half, i), b.load(half, i)));
  std::vector<Trial> trials;
  trials.emplace_back(b.kernel());
  std::shared_ptr<Library> library;
  const std::vector<runtime::KernelFunction> functions = compile_all(trials, host_isa(), library);
  Trial& trial = trials[0];
  for (Int k = 0; k < n; ++k) {
    trial.data<std::uint16_t>(x)[k] = static_cast<std::uint16_t>(0x3f80 + k);     // 1 + k / 128
    trial.data<std::uint16_t>(half)[k] = static_cast<std::uint16_t>(0x3c00 + k);  // 1 + k / 1024
  }
  trial.run(functions[0]);
  for (Int k = 0; k < n; ++k) {
    // 0.1 is 0x3dcd, 205 / 2048; a sum in [1, 2) is a multiple of 1 / 128, ties to even.
    const double exact = 1 + static_cast<double>(k) / 128 + 205.0 / 2048;
    const auto rounded = static_cast<float>(std::nearbyint(exact * 128) / 128);
    CHECK(trial.data<float>(3)[k] == rounded);
    std::uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    CHECK(trial.data<std::uint16_t>(2)[k] == bits >> 16);
    const double square = (1 + static_cast<double>(k) / 1024) * (1 + static_cast<double>(k) / 1024);
    CHECK(trial.data<std::uint16_t>(4)[k] == 0x3c00 + static_cast<int>(std::nearbyint((square - 1) * 1024)));
  }
}

TEST_CASE("a result may lie where the argument was") {
  std::vector<Trial> trials;
  trials.emplace_back(softmax(3, 1000, "in_place_softmax"));
  {
    KernelBuilder b("in_place_chain");
    const Dim i = b.lanes(b.outer(5001));
    const int v = b.load(b.input(DType::f32, 5001), i);
    b.store(b.output(DType::f32, 5001), i, b.apply(Op::add, b.apply(Op::exp, v), v));
    trials.emplace_back(b.kernel());
  }
  std::shared_ptr<Library> library;
  const std::vector<runtime::KernelFunction> functions = compile_all(trials, host_isa(), library);
  for (std::size_t t = 0; t < trials.size(); ++t) {
    Trial& trial = trials[t];
    trial.run(functions[t]);
    std::vector<std::byte> memory = trial.buffers[0];
    void* const pointers[] = {memory.data(), memory.data()};
    functions[t](pointers, nullptr, 0, trial.units());
    CHECK(std::memcmp(memory.data(), trial.buffers[1].data(), memory.size() - 1) == 0);
  }
}

TEST_CASE("no text of the user's reaches the source") {
  KernelBuilder b("comments");
  b.comment("evil \n#include <x> \\");
  b.comment(
      "*/ ?"
      "?/ \"quote\" `tick` at model.cpp:12");
  const Dim i = b.lanes(b.outer(16));
  b.store(b.output(DType::f32, 16), i, b.load(b.input(DType::f32, 16), i));
  const std::string text = codegen::generate_cpp(b.kernel());
  CHECK(text.find("#include") == std::string::npos);
  CHECK(text.find('\\') == std::string::npos);
  CHECK(text.find('?') == std::string::npos);
  CHECK(text.find("model.cpp:12") != std::string::npos);
  CHECK(text.rfind("// evil", 0) == 0);
}

TEST_CASE("the digest of kernels does not depend on how many units they make, and does on each kernel") {
  std::vector<loop::Kernel> kernels = {chain(DType::f32, 64), softmax(8, 64, "softmax"), layer_norm(4, 33)};
  const auto digest_in = [&](std::size_t count) {
    Digest digest;
    CHECK(codegen::cpp_units(kernels, count, &digest).size() == std::min(count, kernels.size()));
    return digest;
  };
  const Digest one = digest_in(1);
  CHECK(one != Digest());
  for (const std::size_t count : {2, 3, 4}) CHECK(digest_in(count) == one);
  kernels[2] = layer_norm(4, 34);
  CHECK(digest_in(1) != one);
  kernels.pop_back();
  CHECK(digest_in(2) != one);
}
