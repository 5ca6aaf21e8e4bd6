// The matrix product against a naive one in double, and large ones against Eigen's: all layouts, odd sizes, batches;
// and the same bits whatever the number of threads.
#include "runtime/host/matmul.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/host/isa.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using runtime::Matmul;

namespace {

using Int = std::int64_t;

enum class Lie { rows, columns, strided };

struct Strides {
  Int row, column, size;  // size: elements of one matrix
};
Strides strides_of(Lie lie, Int rows, Int columns) {
  switch (lie) {
    case Lie::rows: return {columns, 1, rows * columns};
    case Lie::columns: return {1, rows, rows * columns};
    default: return {2 * columns + 1, 2, rows * (2 * columns + 1)};
  }
}

template <class T>
std::vector<T> random_values(Int count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(uniform(generator));
  return values;
}

struct Case {
  Int m, n, k, batch;
  Lie a, b, c;
};

template <class T>
void check(const Case& it) {
  CAPTURE(it.m);
  CAPTURE(it.n);
  CAPTURE(it.k);
  CAPTURE(it.batch);
  CAPTURE(static_cast<int>(it.a));
  CAPTURE(static_cast<int>(it.b));
  CAPTURE(static_cast<int>(it.c));
  const Strides a = strides_of(it.a, it.m, it.k), b = strides_of(it.b, it.k, it.n), c = strides_of(it.c, it.m, it.n);
  const std::vector<T> left = random_values<T>(it.batch * a.size, 1), right = random_values<T>(it.batch * b.size, 2);
  std::vector<T> result(static_cast<std::size_t>(it.batch * c.size), T(-7));
  const Int sizes[] = {it.batch}, a_batch[] = {a.size}, b_batch[] = {b.size}, c_batch[] = {c.size};
  const Matmul product{dtype_of<T>, it.m,  it.n,     it.k,  a.row,   a.column, b.row,
                       b.column,    c.row, c.column, sizes, a_batch, b_batch,  c_batch};
  runtime::matmul(product, left.data(), right.data(), result.data());

  double worst = 0;
  for (Int item = 0; item < it.batch; ++item)
    for (Int i = 0; i < it.m; ++i)
      for (Int j = 0; j < it.n; ++j) {
        double sum = 0, size = 0;
        for (Int l = 0; l < it.k; ++l) {
          const double term = double(left[std::size_t(item * a.size + i * a.row + l * a.column)]) *
                              double(right[std::size_t(item * b.size + l * b.row + j * b.column)]);
          sum += term;
          size += std::abs(term);
        }
        // Each of k products and sums rounds once: k units in the last place of the sum of magnitudes.
        const double unit = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-53;
        const double bound = (static_cast<double>(it.k) + 1) * unit * size;
        const double error = std::abs(double(result[std::size_t(item * c.size + i * c.row + j * c.column)]) - sum);
        worst = std::max(worst, bound > 0 ? error / bound : error);
      }
  CHECK(worst <= 1.0);
}

}  // namespace

TEST_CASE("matmul equals the naive product in every layout at odd sizes") {
  const Int sizes[][3] = {{1, 1, 1},    {2, 3, 1},    {3, 1, 7},    {1, 5, 4},
                          {17, 33, 15}, {65, 31, 63}, {1, 300, 65}, {300, 1, 65}};
  for (const auto& [m, n, k] : sizes)
    for (const Lie a : {Lie::rows, Lie::columns, Lie::strided})
      for (const Lie b : {Lie::rows, Lie::columns, Lie::strided})
        for (const Lie c : {Lie::rows, Lie::columns}) {
          check<float>({m, n, k, 1, a, b, c});
          check<double>({m, n, k, 3, a, b, c});
        }
}

TEST_CASE("matmul of many tiles") {
  for (const Lie a : {Lie::rows, Lie::columns})
    for (const Lie b : {Lie::rows, Lie::columns}) check<float>({300, 200, 130, 1, a, b, Lie::rows});
}

TEST_CASE("tiles that share an operand: across, down, in both, at several slices of the depth, and too deep to share") {
  for (const Lie c : {Lie::rows, Lie::columns}) {
    check<float>({560, 140, 700, 1, Lie::rows, Lie::columns, c});
    check<float>({900, 33, 500, 1, Lie::rows, Lie::rows, c});
    check<float>({97, 65, 1100, 3, Lie::columns, Lie::rows, c});
    check<float>({130, 129, 4100, 1, Lie::rows, Lie::rows, c});
  }
}

namespace {

template <class T>
void check_random(std::mt19937& bits) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic>;
  using Apart = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  const auto size = [&](Int most) { return std::uniform_int_distribution<Int>(1, most)(bits); };
  const Int m = size(400), n = size(300), k = size(700);
  const auto lie = [&](Int rows, Int columns) {  // with a gap after each row or column
    return size(2) == 1 ? Strides{columns + size(40), 1, 0} : Strides{1, rows + size(40), 0};
  };
  const auto elements = [](Strides at, Int rows, Int columns) {
    return (rows - 1) * at.row + (columns - 1) * at.column + 1;
  };
  const auto matrix = [](const std::vector<T>& values, Strides at, Int rows, Int columns) -> Matrix {
    return Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>, 0, Apart>(values.data(), rows, columns,
                                                                                        Apart(at.column, at.row))
        .template cast<double>();
  };
  const Strides a = lie(m, k), b = lie(k, n), c = lie(m, n);
  const std::vector<T> left = random_values<T>(elements(a, m, k), 1), right = random_values<T>(elements(b, k, n), 2);
  std::vector<T> result(static_cast<std::size_t>(elements(c, m, n)), T(-7));
  runtime::matmul({dtype_of<T>, m, n, k, a.row, a.column, b.row, b.column, c.row, c.column, {}, {}, {}, {}},
                  left.data(), right.data(), result.data());
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  const Matrix of_left = matrix(left, a, m, k), of_right = matrix(right, b, k, n);
  const Matrix expected = of_left * of_right, sizes = of_left.cwiseAbs() * of_right.cwiseAbs();
  const double unit = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-52;
  const Matrix error = (matrix(result, c, m, n) - expected).cwiseAbs();
  CHECK(((error - static_cast<double>(k + 1) * unit * sizes).array() <= 0).all());
  // Nothing is written between the rows or columns of the result.
  CHECK(std::count(result.begin(), result.end(), T(-7)) == elements(c, m, n) - m * n);
}

}  // namespace

TEST_CASE("random products whose rows or columns lie apart equal Eigen's") {
  std::mt19937 bits(3);
  for (int i = 0; i < 40; ++i) {
    check_random<float>(bits);
    check_random<double>(bits);
  }
}

TEST_CASE("matmul over nothing is zero, of nothing does nothing") {
  check<float>({3, 4, 0, 2, Lie::rows, Lie::rows, Lie::rows});
  check<float>({3, 1, 0, 1, Lie::rows, Lie::rows, Lie::rows});
  check<float>({0, 4, 5, 2, Lie::rows, Lie::rows, Lie::rows});
  check<double>({3, 0, 5, 1, Lie::rows, Lie::rows, Lie::rows});
  check<double>({3, 4, 5, 0, Lie::rows, Lie::rows, Lie::rows});
}

TEST_CASE("an operand repeated along an axis or walked backwards") {
  // b's rows are one row (stride 0); a's rows are walked from the last to the first.
  const Int m = 5, n = 20, k = 9;
  const std::vector<float> a = random_values<float>(m * k, 1), b = random_values<float>(n, 2);
  std::vector<float> c(static_cast<std::size_t>(m * n));
  runtime::matmul({DType::f32, m, n, k, -k, 1, 0, 1, n, 1, {}, {}, {}, {}}, a.data() + (m - 1) * k, b.data(), c.data());
  for (Int i = 0; i < m; ++i)
    for (Int j = 0; j < n; ++j) {
      double sum = 0;
      for (Int l = 0; l < k; ++l) sum += double(a[std::size_t((m - 1 - i) * k + l)]) * double(b[std::size_t(j)]);
      CHECK(c[std::size_t(i * n + j)] == doctest::Approx(sum).epsilon(1e-5));
    }
}

TEST_CASE("the number of threads does not change a bit of a matmul") {
  const test::KeepOptions keep;
  const Int sizes[][3] = {{64, 256, 784}, {784, 256, 64}, {333, 517, 129}, {5000, 1, 300}};
  for (const auto& [m, n, k] : sizes) {
    const std::vector<float> a = random_values<float>(m * k, 1), b = random_values<float>(k * n, 2);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 7}) {
      options().num_threads = threads;
      std::vector<float> c(static_cast<std::size_t>(m * n));
      runtime::matmul({DType::f32, m, n, k, k, 1, n, 1, n, 1, {}, {}, {}, {}}, a.data(), b.data(), c.data());
      if (first.empty()) first = c;
      CHECK(std::memcmp(first.data(), c.data(), c.size() * sizeof(float)) == 0);
    }
  }
}

namespace {

// The product with each operand that can be packed, and with both: the bits that it has without.
template <class T>
void check_packed(Int m, Int n, Int k, Lie lie_a, Lie lie_b, Lie lie_c, Int gap = 0) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(static_cast<int>(lie_a));
  CAPTURE(static_cast<int>(lie_b));
  CAPTURE(static_cast<int>(lie_c));
  const auto lie = [&](Lie how, Int rows, Int columns) {
    return how == Lie::rows ? Strides{columns + gap, 1, rows * (columns + gap)}
                            : Strides{1, rows + gap, columns * (rows + gap)};
  };
  const Strides a = lie(lie_a, m, k), b = lie(lie_b, k, n), c = lie(lie_c, m, n);
  const std::vector<T> left = random_values<T>(a.size, 1), right = random_values<T>(b.size, 2);
  Matmul product{dtype_of<T>, m, n, k, a.row, a.column, b.row, b.column, c.row, c.column, {}, {}, {}, {}};
  const auto result = [&] {
    std::vector<T> values(static_cast<std::size_t>(c.size), T(-7));
    runtime::matmul(product, left.data(), right.data(), values.data());
    return values;
  };
  const std::vector<T> expected = result();
  const auto is_same = [&] {
    const std::vector<T> values = result();
    return std::memcmp(values.data(), expected.data(), values.size() * sizeof(T)) == 0;
  };
  struct Aligned {
    std::size_t size;
    std::byte* data = static_cast<std::byte*>(std::aligned_alloc(64, (size + 127) / 64 * 64));
    ~Aligned() { std::free(data); }
  };
  // As the left operand and as the right one, so that tiles lie both ways.
  for (const bool a_left : {true, false}) {
    const runtime::MatmulPacking of_a{dtype_of<T>, a_left, m, k, a.row, a.column},
        of_b{dtype_of<T>, !a_left, n, k, b.column, b.row};
    const Aligned panels_a{packed_bytes(of_a)}, panels_b{packed_bytes(of_b)};
    for (const Aligned* each : {&panels_a, &panels_b}) std::memset(each->data, 0xff, each->size + 1);
    pack(of_a, left.data(), panels_a.data);
    pack(of_b, right.data(), panels_b.data);
    for (const Aligned* each : {&panels_a, &panels_b}) CHECK(each->data[each->size] == std::byte{0xff});
    product.b_packed = {panels_b.data, of_b.is_left};
    CHECK(is_same());
    product.a_packed = {panels_a.data, of_a.is_left};
    CHECK(is_same());
    product.b_packed = {};
    CHECK(is_same());
    // Panels of the other kind of operand are not read.
    if (m > 1 && n > 1) product.b_packed = {reinterpret_cast<const std::byte*>(left.data()), of_a.is_left};
    CHECK(is_same());
    product.a_packed = product.b_packed = {};
  }
}

}  // namespace

TEST_CASE("operands that were packed before do not change a bit of a product") {
  const Int sizes[][3] = {{2, 3, 2},      {17, 33, 15},   {64, 384, 384}, {5, 1000, 70},   {16, 1536, 384},
                          {700, 40, 300}, {33, 17, 600},  {3, 130, 4100}, {257, 513, 129}, {1, 200, 90},
                          {200, 1, 90},   {600, 600, 64}, {192, 49, 600}, {50, 112, 130},  {49, 2, 20}};
  for (const auto& [m, n, k] : sizes)
    for (const Lie a : {Lie::rows, Lie::columns})
      for (const Lie b : {Lie::rows, Lie::columns})
        for (const Lie c : {Lie::rows, Lie::columns}) {
          check_packed<float>(m, n, k, a, b, c);
          check_packed<double>(m, n, k, a, b, c, 3);
        }
}

TEST_CASE("vectors of a product are of the axis that fills them") {
  using runtime::a_is_left;
  for (const auto& [m, n] : {std::pair<Int, Int>{1152, 49}, {320, 33}}) {
    CHECK(a_is_left(DType::f32, m, n, true) == (host_isa() != Isa::baseline));
    CHECK(a_is_left(DType::f32, m, n, true) == !a_is_left(DType::f32, n, m, false));
  }
  CHECK_FALSE(a_is_left(DType::f32, 64, 384, true));
  CHECK_FALSE(a_is_left(DType::f32, 5, 384, true));
  CHECK(a_is_left(DType::f32, 384, 5, false));
  CHECK_FALSE(a_is_left(DType::f32, 64, 3136, true));
}

TEST_CASE(
    "few rows times a matrix that lies along the depth: read where it lies it gives the bits that its panels give") {
  for (Int m = 2; m < 70; m += m < 20 ? 1 : 7)
    for (const Lie a : {Lie::rows, Lie::columns}) {
      check_packed<float>(m, 131, 519, a, Lie::columns, Lie::rows, 5);
      check_packed<float>(77, m, 33, Lie::rows, a, Lie::columns, 1);
    }
}

TEST_CASE("products of packed operands on several threads") {
  const test::KeepOptions keep;
  for (const int threads : {1, 2, 7}) {
    options().num_threads = threads;
    check_packed<float>(128, 768, 768, Lie::rows, Lie::columns, Lie::rows);
    check_packed<float>(1000, 130, 300, Lie::rows, Lie::rows, Lie::rows);
    check_packed<float>(768, 128, 768, Lie::columns, Lie::rows, Lie::columns);
  }
}
