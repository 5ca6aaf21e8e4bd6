// Products by a CBLAS library against naive ones in a wider type: layouts, batches, tiles with ends; the same bits
// whatever the number of threads; forks; and libraries that are not there or can't be used.
#include <doctest/doctest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "base/options.hpp"
#include "runtime/host/cblas_product.hpp"
#include "tests/needs.hpp"
#include "tests/runtime/support.hpp"

using namespace weft;
using runtime::cblas::Product;

namespace {

using Int = std::int64_t;

const runtime::cblas::Library* installed() {
  const ProcessOptions before = options();
  options().cblas = 1, options().isa.clear();
  const runtime::cblas::Library* const library = runtime::cblas::library();
  options() = before;
  return library;
}
std::string a_library() { return installed() ? "" : "no CBLAS library that can be used is installed"; }

template <class T>
std::vector<T> random_values(Int count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = uniform(generator);
  return values;
}

struct Strides {
  Int row, column, size;
};
Strides strides_of(bool by_columns, Int rows, Int columns, Int gap) {
  if (by_columns) return {1, rows + gap, columns * (rows + gap)};
  return {columns + gap, 1, rows * (columns + gap)};
}

struct Case {
  Int m, n, k, batch;
  bool a, b, c;  // whether they lie by columns
  Int gap = 0;
  bool repeats = false;  // every item of the batch has the same right operand
};
struct Placed {
  Strides a, b, c;
  Contraction contraction;
};
template <class T>
Placed place(const Case& it) {
  const Strides a = strides_of(it.a, it.m, it.k, it.gap), b = strides_of(it.b, it.k, it.n, it.gap),
                c = strides_of(it.c, it.m, it.n, it.gap);
  const DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::f64;
  return {a,
          b,
          c,
          {dtype,
           {it.batch},
           it.m,
           it.n,
           it.k,
           0,
           0,
           0,
           {a.size},
           {it.repeats ? 0 : b.size},
           {c.size},
           a.row,
           a.column,
           b.row,
           b.column,
           c.row,
           c.column}};
}

template <class T>
void check(const runtime::cblas::Library& library, const Case& it) {
  const Placed placed = place<T>(it);
  const std::shared_ptr<const Product> product = Product::make(library, placed.contraction);
  REQUIRE(product);
  const std::vector<T> left = random_values<T>(it.batch * placed.a.size, 1),
                       right = random_values<T>(it.batch * placed.b.size, 2);
  const T untouched = 77;
  std::vector<T> result(static_cast<std::size_t>(it.batch * placed.c.size), untouched);
  product->run(left.data(), right.data(), result.data());
  const auto at = [](const std::vector<T>& values, const Strides& s, Int item, Int i, Int j) -> const T& {
    return values[static_cast<std::size_t>(item * s.size + i * s.row + j * s.column)];
  };
  long double worst = 0;
  for (Int item = 0; item < it.batch; ++item)
    for (Int i = 0; i < it.m; ++i)
      for (Int j = 0; j < it.n; ++j) {
        long double sum = 0, size = 0;
        for (Int l = 0; l < it.k; ++l) {
          const long double x = at(left, placed.a, item, i, l);
          const long double term = x * at(right, placed.b, it.repeats ? 0 : item, l, j);
          sum += term, size += std::abs(term);
        }
        const long double bound = static_cast<long double>(it.k + 1) * std::numeric_limits<T>::epsilon() / 2 * size;
        worst = std::max(worst, std::abs(at(result, placed.c, item, i, j) - sum) / bound);
      }
  const auto gaps = std::count(result.begin(), result.end(), untouched);
  INFO(it.batch, " x [", it.m, ",", it.k, "] x [", it.k, ",", it.n, "] ", it.a, it.b, it.c, " gap ", it.gap);
  CHECK(worst <= 1);
  CHECK(gaps == it.batch * (placed.c.size - it.m * it.n));
}

}  // namespace

TEST_CASE("a CBLAS library that is absent, is none, or has integers of 64 bits is not used") {
  CHECK(runtime::cblas::load("libcblas_that_is_nowhere.so") == nullptr);
  CHECK(runtime::cblas::load("libm.so.6") == nullptr);
  CHECK(runtime::cblas::load("libopenblas64.so.0") == nullptr);  // has cblas_sgemm under that very name
}

TEST_CASE("WEFT_CBLAS=0 and a narrower WEFT_ISA leave CBLAS out" * test::needs(a_library)) {
  const ProcessOptions before = options();
  options().cblas = 0;
  CHECK(runtime::cblas::library() == nullptr);
  options().cblas = 1, options().isa = "avx2";
  CHECK(runtime::cblas::library() == nullptr);
  options() = before;
}

TEST_CASE("products by CBLAS equal naive ones" * test::needs(a_library)) {
  const runtime::cblas::Library* const library = installed();
  const Case cases[] = {{300, 270, 64, 1, false, false, false},   {256, 256, 33, 1, true, false, true, 5},
                        {31, 300, 40, 3, false, true, true},      {65, 33, 100, 4, true, true, false, 3, true},
                        {1, 300, 100, 2, false, false, false, 1}, {300, 1, 100, 2, true, true, true, 1},
                        {40, 50, 1, 2, false, true, false, 2},    {1, 1, 1, 1, false, false, false},
                        {2100, 40, 7, 1, true, false, false}};
  for (const Case& it : cases) check<float>(*library, it), check<double>(*library, it);
  std::mt19937 generator(7);
  const auto pick = [&](Int least, Int most) { return std::uniform_int_distribution<Int>(least, most)(generator); };
  for (int i = 0; i < 60; ++i) {
    const Case it{pick(1, 150),    pick(1, 150),    pick(1, 80), pick(1, 4),     pick(0, 1) == 1,
                  pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 3),  pick(0, 1) == 1};
    i % 2 ? check<float>(*library, it) : check<double>(*library, it);
  }
}

TEST_CASE("CBLAS is not given what it can't read or write, nor sizes beyond 32 bits" * test::needs(a_library)) {
  const runtime::cblas::Library* const library = installed();
  const Contraction fits = place<float>({40, 50, 60, 1, false, false, false}).contraction;
  const auto takes = [&](auto change) {
    Contraction c = fits;
    change(c);
    return Product::make(*library, c) != nullptr;
  };
  CHECK(takes([](Contraction&) {}));
  CHECK_FALSE(takes([](Contraction& c) { c.a_column = 2; }));
  CHECK_FALSE(takes([](Contraction& c) { c.b_row = 0; }));
  CHECK_FALSE(takes([](Contraction& c) { c.b_row = -50; }));
  CHECK_FALSE(takes([](Contraction& c) { c.c_row = 100, c.c_column = 2; }));
  CHECK_FALSE(takes([](Contraction& c) { c.a_row = Int{1} << 31; }));
  CHECK_FALSE(takes([](Contraction& c) { c.m = Int{1} << 31; }));
  CHECK_FALSE(takes([](Contraction& c) { c.k = 0; }));
  CHECK_FALSE(takes([](Contraction& c) { c.dtype = DType::bf16; }));
}

TEST_CASE("the number of threads does not change a bit of a product by CBLAS, nor does the product change that number" *
          test::needs(a_library)) {
  const runtime::cblas::Library* const library = installed();
  const test::KeepOptions keep;
  const int before = omp_get_max_threads();
  const Case it{500, 700, 300, 1, false, true, true};
  const Placed placed = place<float>(it);
  const std::vector<float> left = random_values<float>(placed.a.size, 1),
                           right = random_values<float>(placed.b.size, 2);
  std::vector<float> first;
  omp_set_num_threads(3);
  if (library->get_threads) {
    const runtime::cblas::Call call(*library);
    CHECK(library->get_threads() == 1);
  }
  CHECK(omp_get_max_threads() == 3);
  for (const int threads : {1, 2, 3, 7}) {
    options().num_threads = threads;
    omp_set_num_threads(threads);
    const std::shared_ptr<const Product> product = Product::make(*library, placed.contraction);
    REQUIRE(product);
    std::vector<float> result(static_cast<std::size_t>(placed.c.size));
    product->run(left.data(), right.data(), result.data());
    CHECK(omp_get_max_threads() == threads);
    if (first.empty()) first = result;
    CHECK(std::memcmp(first.data(), result.data(), result.size() * sizeof(float)) == 0);
  }
  omp_set_num_threads(before);
}

TEST_CASE("children that are forked while other threads are inside of CBLAS multiply to the same bits" *
          test::needs(a_library)) {
  const runtime::cblas::Library* const library = installed();
  const Case it{96, 160, 48, 2, false, false, false};
  const Placed placed = place<double>(it);
  const std::vector<double> left = random_values<double>(2 * placed.a.size, 1),
                            right = random_values<double>(2 * placed.b.size, 2);
  const std::shared_ptr<const Product> product = Product::make(*library, placed.contraction);
  const auto multiply = [&] {
    std::vector<double> result(static_cast<std::size_t>(2 * placed.c.size));
    product->run(left.data(), right.data(), result.data());
    return result;
  };
  const std::vector<double> expected = multiply();
  std::atomic<bool> done = false, right_here = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!done)
        if (multiply() != expected) right_here = false;
    });
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a hang ends in a signal
      _exit(multiply() == expected ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(right_here);
}
