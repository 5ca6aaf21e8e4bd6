// Reductions in two stages: long ones to few elements, and those of columns beside those of rows. The same bits as
// eagerly, whatever is left over after whole chunks, on any number of threads.
#include <cmath>
#include <cstring>

#include "tests/trace/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace trace_test;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.element_count() != b.element_count()) return false;
  // Every dtype widens to f64 without loss, but i64: its values here are small.
  const Tensor wide_a = cast(a, DType::f64), wide_b = cast(b, DType::f64);
  View<const double> x = wide_a.data<double>(), y = wide_b.data<double>();
  return std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

template <class F>
void check_same(F f, const Tensor& x, int kernels) {
  auto compiled = compile(f, {.on_compile_error = OnFailure::raise, .recompile_limit = 100});
  const std::vector<Tensor> eager = f(x), results = compiled(x);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    INFO("result ", i);
    CHECK(same_bits(eager[i], results[i]));
  }
  CHECK(explain(compiled, x).kernels.size() == static_cast<std::size_t>(kernels));
}

Tensor random(std::initializer_list<std::int64_t> sizes, DType dtype) {
  Generator generator(3);
  std::vector<Dim> dims(sizes.begin(), sizes.end());
  return cast(normal(dims, 0.2, 1, generator) * (is_floating(dtype) ? 1 : 20), dtype);
}

}  // namespace

TEST_CASE("everything to one number: chunks first, their results in order") {
  const auto all = [](const Tensor& x) { return std::vector<Tensor>{sum(x), amax(x * x), mean(tanh(x)), amin(x)}; };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    check_same(all, random({40 * 4096}, dtype), 2);        // whole chunks
    check_same(all, random({16, 4096 + 1000}, dtype), 3);  // and a rest
  }
  check_same(
      [](const Tensor& x) {
        return std::vector<Tensor>{sum(x), amax(x), prod(x)};
      },
      random({70001}, DType::i32), 3);
}

TEST_CASE("few long rows, and few long columns") {
  check_same(
      [](const Tensor& x) {
        return std::vector<Tensor>{sum(x, 1), sum(x * x, 1) * 2};
      },
      random({3, 5 * 4096 * 4 + 17}, DType::f32), 3);
  check_same(
      [](const Tensor& x) {
        return std::vector<Tensor>{sum(x, 0), amax(abs(x), 0), prod(x * 0.01 + 1, 0)};
      },
      random({70000, 3}, DType::f32), 3);
  check_same([](const Tensor& x) { return std::vector<Tensor>{sum(x, 0)}; }, random({64 * 1100, 2}, DType::bf16), 2);
}

TEST_CASE("a long reduction takes with it what feeds it, and what is stored on the way") {
  check_same(
      [](const Tensor& x) {
        const Tensor error = tanh(x) - 0.5;
        return std::vector<Tensor>{error, mean(error * error)};
      },
      random({100, 1000}, DType::f32), 3);
}

TEST_CASE("what walks again after a long reduction is a kernel of its own") {
  check_same([](const Tensor& x) { return std::vector<Tensor>{x - mean(x)}; }, random({1, 80000}, DType::f32), 4);
}

TEST_CASE("a position in a long row: of equal elements in several chunks the first") {
  const auto position = [](const Tensor& x) { return std::vector<Tensor>{argmax(x, 0), argmin(x, 0)}; };
  check_same(position, random({70000}, DType::f32), 3);
  check_same(position, random({70000}, DType::i32), 3);  // many are equal
  check_same(position, where(arange(70000, {DType::f32}) > 40000.0, NAN, 1.0), 3);
}

TEST_CASE("rows and columns are reduced in one pass") {
  const auto norm_backward = [](const Tensor& x) {
    const Tensor centered = x - mean(x, -1, true), scale = rsqrt(mean(centered * centered, -1, true) + 1e-5);
    const Tensor normal = centered * scale, dy = x * 0.3;
    const Tensor dx = (dy - mean(dy, -1, true) - normal * mean(dy * normal, -1, true)) * scale;
    std::vector<int> rows;
    for (int axis = 0; axis + 1 < x.rank(); ++axis) rows.push_back(axis);
    return std::vector<Tensor>{dx, sum(dy * normal, rows), sum(dy, rows), amax(x, rows), sum(x, -1)};
  };
  check_same(norm_backward, random({256, 128}, DType::f32), 2);     // whole chunks of rows
  check_same(norm_backward, random({131, 77}, DType::f32), 3);      // a rest of rows and of lanes
  check_same(norm_backward, random({10, 30, 64}, DType::bf16), 3);  // rows of two axes
  check_same(norm_backward, random({200, 64}, DType::f64), 3);
  check_same(
      [](const Tensor& x) {
        return std::vector<Tensor>{sum(x, 0), sum(x, 1), prod(x, 0)};
      },
      random({300, 64}, DType::i32), 3);
}

TEST_CASE("rows and columns: transposed rows are numbered as eagerly") {
  check_same(
      [](const Tensor& x) {
        const Tensor y = transpose(x, 0, 1) * 1.5;  // 30 x 10 rows, which memory has in another order
        return std::vector<Tensor>{y - amax(y, -1, true), sum(y, {0, 1})};
      },
      random({10, 30, 64}, DType::f32), 3);
}

TEST_CASE("rows and columns: what reads the columns' result runs after them") {
  check_same(
      [](const Tensor& x) {
        const Tensor total = sum(x, 0);
        return std::vector<Tensor>{softmax(x, 1), total / amax(total), x * total};
      },
      random({256, 128}, DType::f32), 3);
}

TEST_CASE("rows and columns of one square value") {
  check_same(
      [](const Tensor& x) {
        return std::vector<Tensor>{sum(x, 0) + 1, sum(x, 1) + 1, sum(x, 0) * sum(x, 1)};
      },
      random({128, 128}, DType::f32), 3);
}
