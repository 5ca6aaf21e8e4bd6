// Products by oneDNN against naive ones in double: layouts, batches, tiles with ends, results that lie apart; the same
// bits whatever the number of threads; and a machine without it.
#include "runtime/host/onednn_product.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/needs.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using runtime::onednn::Product;

namespace {

using Int = std::int64_t;

float value_of(float x) { return x; }
float value_of(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
void put(float& to, float x) { to = x; }
void put(std::uint16_t& to, float x) { to = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); }

template <class T>
std::vector<T> random_values(Int count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) put(value, uniform(generator));
  return values;
}

enum class Lie { rows, columns, apart };
struct Strides {
  Int row, column, size;
};
Strides strides_of(Lie lie, Int rows, Int columns) {
  switch (lie) {
    case Lie::rows: return {columns + 3, 1, rows * (columns + 3)};
    case Lie::columns: return {1, rows, rows * columns};
    default: return {2 * columns + 1, 2, rows * (2 * columns + 1)};
  }
}

struct Case {
  Int m, n, k, batch;
  Lie a, b, c;
};

template <class T>
constexpr DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::bf16;

template <class T>
std::vector<T> run(const Product& product, const Case& it, const Contraction& c, const std::vector<T>& left,
                   const std::vector<T>& right, Int size) {
  const Int sizes[] = {it.batch}, step[] = {c.c_batch[0].constant()};
  runtime::Matmul now;
  now.c_row = c.c_row.constant(), now.c_column = c.c_column.constant();
  now.batch = sizes, now.c_batch = step;
  std::vector<T> result(static_cast<std::size_t>(size));
  std::vector<std::byte> memory(product.workspace() + 64);
  std::byte* begin = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  product.run(now, {left.data(), right.data(), nullptr, result.data()}, {begin, product.workspace()});
  return result;
}

// Whether the library takes it.
template <class T>
bool check(const runtime::onednn::Library& library, const Case& it) {
  const Strides a = strides_of(it.a, it.m, it.k), b = strides_of(it.b, it.k, it.n), c = strides_of(it.c, it.m, it.n);
  const Contraction contraction{dtype<T>, {it.batch}, it.m,  it.n,     it.k,  0,        0,     0,       {a.size},
                                {b.size}, {c.size},   a.row, a.column, b.row, b.column, c.row, c.column};
  const std::shared_ptr<const Product> product = Product::make(library, contraction);
  if (!product) return false;
  const std::vector<T> left = random_values<T>(it.batch * a.size, 1), right = random_values<T>(it.batch * b.size, 2);
  const std::vector<T> result = run(*product, it, contraction, left, right, it.batch * c.size);
  const auto at = [](const std::vector<T>& values, const Strides& s, Int item, Int i, Int j) {
    return double{value_of(values[static_cast<std::size_t>(item * s.size + i * s.row + j * s.column)])};
  };
  double worst = 0;
  for (Int item = 0; item < it.batch; ++item)
    for (Int i = 0; i < it.m; ++i)
      for (Int j = 0; j < it.n; ++j) {
        double sum = 0, size = 0;
        for (Int l = 0; l < it.k; ++l) {
          const double term = at(left, a, item, i, l) * at(right, b, item, l, j);
          sum += term, size += std::abs(term);
        }
        const double rounded = std::is_same_v<T, float> ? 0 : 0x1p-8 * std::abs(sum);
        const double bound = (static_cast<double>(it.k) + 1) * 0x1p-24 * size + rounded;
        worst = std::max(worst, std::abs(at(result, c, item, i, j) - sum) / bound);
      }
  CAPTURE(it.m);
  CAPTURE(it.n);
  CAPTURE(it.k);
  CHECK(worst <= 1);
  return true;
}

const Case cases[] = {
    {300, 270, 64, 1, Lie::rows, Lie::rows, Lie::rows},       {300, 270, 64, 1, Lie::columns, Lie::rows, Lie::rows},
    {256, 256, 33, 1, Lie::rows, Lie::columns, Lie::columns}, {131, 517, 40, 1, Lie::columns, Lie::columns, Lie::rows},
    {31, 300, 40, 3, Lie::rows, Lie::columns, Lie::columns},  {65, 33, 100, 4, Lie::rows, Lie::rows, Lie::apart},
    {1, 300, 100, 2, Lie::rows, Lie::rows, Lie::rows},        {300, 1, 100, 2, Lie::rows, Lie::rows, Lie::columns},
    {1500, 40, 7, 1, Lie::columns, Lie::rows, Lie::rows}};

std::string a_library() { return runtime::onednn::library() ? "" : "oneDNN is not installed"; }

}  // namespace

TEST_CASE("oneDNN is found, or is absent without an error") {
  CHECK(runtime::onednn::load("libdnnl_that_is_nowhere.so") == nullptr);
  CHECK(runtime::onednn::load("libm.so.6") == nullptr);  // another library
  if (const auto* library = runtime::onednn::library()) CHECK(runtime::onednn::name(*library).starts_with("oneDNN 2."));
}

TEST_CASE("oneDNN's products equal naive ones" * test::needs(a_library)) {
  const auto* library = runtime::onednn::library();
  for (const Case& it : cases) CHECK(check<float>(*library, it));
  // It refuses bf16 where the CPU has no instructions for it.
  const bool has_bf16 = runtime::onednn::is_fast(*library, DType::bf16);
  for (const Case& it : cases) CHECK((check<std::uint16_t>(*library, it) || !has_bf16));
}

TEST_CASE("oneDNN refuses operands whose elements lie apart, repeat or run backwards") {
  using Dims = std::vector<Dim>;
  const Dim sizes[] = {4, 8};
  const auto reads = [&](const Dims& strides) { return runtime::ProductTiles::reads(Shape(sizes, 2), strides); };
  CHECK(reads({8, 1}));
  CHECK(reads({11, 1}));
  CHECK(reads({1, 4}));
  CHECK_FALSE(reads({16, 2}));
  CHECK_FALSE(reads({0, 1}));
  CHECK_FALSE(reads({-8, 1}));
  CHECK_FALSE(reads({7, 1}));
}

TEST_CASE("the number of threads does not change a bit of oneDNN's products" * test::needs(a_library)) {
  const auto* library = runtime::onednn::library();
  const test::KeepOptions keep;
  const int before = omp_get_max_threads();
  const Case it{500, 700, 300, 1, Lie::rows, Lie::rows, Lie::columns};
  const Strides a = strides_of(it.a, it.m, it.k), b = strides_of(it.b, it.k, it.n), c = strides_of(it.c, it.m, it.n);
  const Contraction contraction{DType::f32, {1},      it.m,  it.n,     it.k,  0,        0,     0,       {a.size},
                                {b.size},   {c.size}, a.row, a.column, b.row, b.column, c.row, c.column};
  const std::vector<float> left = random_values<float>(a.size, 1), right = random_values<float>(b.size, 2);
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 7}) {
    options().num_threads = threads;
    omp_set_num_threads(threads);  // also while its primitives are made
    const std::shared_ptr<const Product> product = Product::make(*library, contraction);
    REQUIRE(product);
    const std::vector<float> result = run(*product, it, contraction, left, right, c.size);
    CHECK(omp_get_max_threads() == threads);
    if (first.empty()) first = result;
    CHECK(std::memcmp(first.data(), result.data(), result.size() * sizeof(float)) == 0);
  }
  omp_set_num_threads(before);
}
