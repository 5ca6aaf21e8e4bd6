// Functions that return what they reduce again: reductions, scans, and their expansions and transpositions, beside
// values of other shapes and independent pointwise ones. Each result must have the bits of the eager one.
#include <utility>

#include "base/options.hpp"
#include "tests/trace/support.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

using Results = std::vector<Tensor>;
using Function = Results (*)(const Tensor& x, const Tensor& y);

Results expanded_rows(const Tensor& x, const Tensor& y) {
  const Tensor r = expand(sum(y, 1, true), Sizes(y.shape())) * 1;
  return {sum(r) < 21, x + 1, r};
}
Results expanded_columns(const Tensor& x, const Tensor& y) {
  const Tensor r = expand(amax(y, 0, true), Sizes(y.shape()));
  return {sum(r, 1), r, amin(r), x * 2, x - 1};
}
Results chain(const Tensor& x, const Tensor& y) {
  const Tensor rows = expand(sum(y, 1, true), Sizes(y.shape())),
               columns = expand(amax(rows, 0, true), Sizes(y.shape()));
  const Tensor all = expand(sum(columns, Axes(), true), Sizes(y.shape()));
  return {rows, x + 1, columns, sum(columns, 1), all, amax(all, 0), x * 2, transpose(rows), sum(rows)};
}
Results rows_reduced_to_columns(const Tensor& x, const Tensor& y) {
  const Tensor rows = sum(y, 1, true), whole = expand(rows, Sizes(y.shape()));
  return {rows, sum(whole, 0), amax(whole + 1, 0), argmax(x, 1), x + 1};
}
Results transposed_scan(const Tensor& x, const Tensor& y) {
  const Tensor scan = cumsum(y, 1), turned = transpose(scan);
  return {sum(turned, 1), turned, x + 1, amax(turned, 0), cummax(turned, 0).values};
}
Results scan_of_expansion(const Tensor& x, const Tensor& y) {
  const Tensor r = expand(amin(y, 1, true), Sizes(y.shape())), scan = cumsum(r, 1);
  return {r, scan, sum(scan, 0), x * 2, sum(r, 0), x + 1};
}
Results argument_of_product(const Tensor& x, const Tensor& y) {
  const Tensor r = expand(sum(y, 1, true), Sizes(y.shape()));
  const Tensor total = sum(r, 0), product = matmul(transpose(r), cast(x, r.dtype()));
  return {total, product, r, sum(product, 1)};
}

struct Size {
  std::int64_t rows, columns;
};

template <Function f>
void check_one(DType dtype, std::initializer_list<Size> sizes) {
  CompileOptions options{.on_compile_error = OnFailure::raise, .recompile_limit = 100};
  const auto function = [](const Tensor& x, const Tensor& y) { return f(x, y); };
  auto fixed = compile(function, options);
  options.dynamic = true;
  auto symbolic = compile(function, options);
  Generator rng(11);
  for (const auto& [rows, columns] : sizes) {
    const Tensor x = cast(round(normal({rows, columns}, 0, 2, rng)), dtype);
    const Tensor y = cast(round(normal({rows, columns}, 0, 2, rng)), dtype);
    const Results eager = f(x, y), one = fixed(x, y), every = symbolic(x, y);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      INFO("result ", i, " of ", info(dtype).name, "[", rows, ",", columns, "]");
      CHECK(one[i].dtype() == eager[i].dtype());
      CHECK_FALSE(any(one[i] != eager[i]).item<bool>());
      CHECK_FALSE(any(every[i] != eager[i]).item<bool>());
    }
  }
}

template <Function... f>
void check(DType dtype, std::initializer_list<Size> sizes) {
  (check_one<f>(dtype, sizes), ...);
}

}  // namespace

TEST_CASE("what is returned and reduced again has the eager bits") {
  const int optimization = std::exchange(options().kernel_optimization, 1);  // many kernels
  const auto all = [](DType dtype, std::initializer_list<Size> sizes) {
    check<expanded_rows, expanded_columns, chain, rows_reduced_to_columns, transposed_scan, scan_of_expansion,
          argument_of_product>(dtype, sizes);
  };
  all(DType::f32, {{1, 1}, {3, 4}, {1, 65}, {129, 1}, {33, 257}, {129, 65}});
  all(DType::f64, {{1, 1}, {33, 257}, {129, 65}});
  all(DType::i64, {{1, 1}, {33, 257}, {129, 65}});
  check<expanded_rows, rows_reduced_to_columns, argument_of_product>(DType::boolean, {{1, 1}, {33, 257}, {129, 65}});
  check<expanded_rows, chain, rows_reduced_to_columns>(DType::f32, {{1000, 1000}});
  options().kernel_optimization = optimization;
}
