// Values and gradients of weft::linalg and weft::fft against PyTorch (golden.py says what is computed): eagerly,
// compiled, and by the reference interpreter.
#include <cmath>
#include <string>
#include <vector>

#include "tests/linalg/support.hpp"
#include "weft/compile.hpp"
#include "weft/fft.hpp"
#include "weft/grad.hpp"
#include "weft/linalg.hpp"
#include "weft/signal.hpp"

using namespace weft;
using namespace weft::linalg;
namespace windows = weft::signal::windows;
using namespace weft::test;

namespace {

Tensor gram(const Tensor& x) {
  const Tensor product = matmul(x, transpose(x));
  return product + identity(product.size(-1));
}
Tensor pair(const fft::Complex& z) { return stack({z.real, z.imag}); }
fft::Complex complex(const Tensor& x) { return {x, flip(x, -1)}; }

Tensor solve_by(const LUFactors& factors, const Tensor& b, LUSolveOptions options = {}) {
  return lu_solve(factors.lu, factors.pivots, b, options);
}

#define WEFT_GOLDEN_INPUT(name, sizes, numbers) Tensor name;
#define WEFT_GOLDEN(...)
struct Inputs {
#include "golden.inc"
};
#undef WEFT_GOLDEN_INPUT
#undef WEFT_GOLDEN

Inputs inputs() {
  Inputs result;
#define WEFT_GOLDEN_INPUT(name, sizes, numbers) \
  result.name = from_span(std::span<const double>(Numbers numbers), Sizes sizes);
#define WEFT_GOLDEN(...)
#include "golden.inc"
#undef WEFT_GOLDEN_INPUT
#undef WEFT_GOLDEN
  return result;
}

template <class F>
void put(F, const Tensor& x, std::vector<Tensor>& results) {
  results.push_back(F()(x));
  results.push_back(grad(
      [](const Tensor& v) {
        const Tensor y = F()(v);
        return sum(flatten(y) * cos(arange(y.element_count(), {DType::f64})));
      },
      x));
}

#define WEFT_GOLDEN_INPUT(...)
#define WEFT_GOLDEN(input, expression, values, gradient) \
  put([](const Tensor& x) { return expression; }, given.input, results);
std::vector<Tensor> all_rows(const Inputs& given) {
  std::vector<Tensor> results;
#include "golden.inc"
  return results;
}
#undef WEFT_GOLDEN

struct Row {
  std::string name;
  Numbers expected[2];
};
#define WEFT_GOLDEN(input, expression, values, gradient) \
  {#expression " of " #input, {Numbers values, Numbers gradient}},
const Row rows[] = {
#include "golden.inc"
};
#undef WEFT_GOLDEN
#undef WEFT_GOLDEN_INPUT

void check_rows(const std::vector<Tensor>& results) {
  std::size_t next = 0;
  for (const Row& row : rows)
    for (const Numbers& expected : row.expected) {
      CAPTURE(row.name);
      CAPTURE(next % 2);  // 1: the gradient
      check_near(numbers_of(results[next++]), expected, 1e-10);
    }
}

TEST_CASE("linear algebra and Fourier transforms are PyTorch's, eagerly") { check_rows(all_rows(inputs())); }

TEST_CASE("linear algebra and Fourier transforms are PyTorch's by the reference") {
  check_rows(compile(all_rows, {.backend = Backend::reference})(inputs()));
}

TEST_CASE("linear algebra and Fourier transforms are PyTorch's, compiled") {
  check_rows(compile(all_rows, {.on_compile_error = OnFailure::raise})(inputs()));
}

}  // namespace
