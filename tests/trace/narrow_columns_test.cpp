// Reductions to a few neighbouring columns, as over the middle axis of [n, n, 3]: the lanes of a compiled kernel run
// over rows and columns together, and eager blocks are folded several chunks at a time. Both give the bits of columns
// that are walked one after the other.
#include <cmath>
#include <limits>
#include <utility>

#include "base/options.hpp"
#include "ir/node.hpp"
#include "tests/trace/support.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// The kernel's lanes are narrow columns.
bool is_narrow(const std::string& source) { return source.find("narrow_reduction<") != std::string::npos; }

std::vector<Tensor> reductions(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool logical = x.dtype() == DType::boolean;
  std::vector<Tensor> results{sum(x, 1), amax(x, 1), amin(x, 1), sum(unsqueeze(weight, 2) * x, 1, true),
                              sum(x, 1) + bias};
  if (!logical) {
    results.push_back(prod(x, 1));
    results.push_back(amax(x * bias, 1) - bias);
    results.push_back(sum(pad(x, 1, 1, 2), 1));
    results.push_back(sum(transpose(x, 0, 1), 1));  // over the first axis of memory
    results.push_back(sum(x, {0, 1}));
  }
  return results;
}

void check_same(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, const Shape& shape, DType dtype) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("result ", i, " of ", info(dtype).name, to_string(shape));
    CHECK(got[i].dtype() == expected[i].dtype());
    const Tensor differ = cast(got[i], DType::f64) != cast(expected[i], DType::f64);
    CHECK_FALSE(any(differ).item<bool>());
  }
}

// The sum of a column in the order that include/weft/detail/reduce.inc fixes.
float column_sum(const float* first, std::int64_t rows, std::int64_t width) {
  double total = 0;
  for (std::int64_t chunk = 0; chunk < rows; chunk += 64) {
    float sum = 0;
    for (std::int64_t row = chunk; row < std::min(chunk + 64, rows); ++row) sum += first[row * width];
    total += sum;
  }
  return static_cast<float>(total);
}

}  // namespace

TEST_CASE("narrow columns: sums have the order of columns, eagerly and compiled") {
  Generator rng(31);
  auto compiled = compile([](const Tensor& x) { return sum(x, 1); },
                          {.on_compile_error = OnFailure::raise, .recompile_limit = 1000});
  for (const std::int64_t width : {2, 3, 4, 5, 7, 8, 9})
    for (const std::int64_t rows : {1, 15, 16, 63, 64, 65, 128, 191, 256, 257, 512, 1000}) {
      const Tensor x = normal({3, rows, width}, 0.3, 1, rng), eager = sum(x, 1), fused = compiled(x);
      const View<const float> from = x.data<float>(), one = eager.data<float>(), other = fused.data<float>();
      for (std::int64_t i = 0; i < 3 * width; ++i) {
        INFO("column ", i, " of ", rows, " rows of ", width);
        const float expected = column_sum(from.data() + i / width * rows * width + i % width, rows, width);
        CHECK(one[static_cast<std::size_t>(i)] == expected);
        CHECK(other[static_cast<std::size_t>(i)] == expected);
      }
    }
}

TEST_CASE("narrow columns: every dtype and width, sizes known and symbolic") {
  Generator rng(32);
  CompileOptions options{.on_compile_error = OnFailure::raise, .recompile_limit = 1000};
  auto fixed = compile(reductions, options);
  options.dynamic = true;
  auto symbolic = compile(reductions, options);
  const auto check = [&](Sizes sizes, DType dtype, bool also_symbolic) {
    const Shape shape = sizes.shape();
    const Tensor x = cast(normal(sizes, 0.3, 2, rng), dtype);
    const Tensor weight = cast(normal({shape[0].constant(), shape[1].constant()}, 0, 2, rng), dtype);
    const Tensor bias = cast(normal({shape[2].constant()}, 0, 2, rng), dtype);
    const std::vector<Tensor> eager = reductions(x, weight, bias);
    check_same(fixed(x, weight, bias), eager, shape, dtype);
    if (also_symbolic) check_same(symbolic(x, weight, bias), eager, shape, dtype);
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16,
                            DType::i8, DType::u8, DType::boolean})
    check({5, 77, 3}, dtype, true);
  for (const std::int64_t width : {1, 2, 4, 5, 8, 9}) check({4, 130, width}, DType::f32, true);
  check({4, 130, 7}, DType::f64, false);
  for (const std::int64_t rows : {1, 2, 17, 64, 300}) check({3, rows, 2}, DType::f32, true);
}

TEST_CASE("narrow columns: nothing to add, and nothing to add up to") {
  auto compiled = compile([](const Tensor& x) { return sum(x * 2, 1); }, {.on_compile_error = OnFailure::raise});
  CHECK(all(compiled(zeros({4, 0, 3})) == zeros({4, 3})).item<bool>());
  CHECK(compiled(zeros({0, 40, 3})).shape().element_count().same(Dim(0)));
  CHECK(all(sum(zeros({4, 0, 3}), 1) == zeros({4, 3})).item<bool>());
}

TEST_CASE("narrow columns: lanes run over rows and columns where the columns are few and known") {
  const bool checked = std::exchange(options().nvrtc_check, false);  // with it there are none, as on a device
  const auto source_of = [](Sizes sizes, bool dynamic) {
    auto f =
        compile([](const Tensor& x, const Tensor& w) { return sum(unsqueeze(w, 2) * x, 1); }, {.dynamic = dynamic});
    const Shape shape = sizes.shape();
    const Tensor x = ones(sizes), w = ones({shape[0].constant(), shape[1].constant()});
    std::string all;
    for (const auto& kernel : explain(f, x, w).kernels) all += kernel.source;
    return all;
  };
  CHECK(is_narrow(source_of({200, 200, 3}, false)));
  CHECK(source_of({200, 200, 3}, false).find("load_repeated<3>") != std::string::npos);
  CHECK(is_narrow(source_of({200, 200, 8}, false)));
  CHECK_FALSE(is_narrow(source_of({200, 200, 9}, false)));
  CHECK_FALSE(is_narrow(source_of({200, 8, 3}, false)));
  CHECK_FALSE(is_narrow(source_of({200, 200, 3}, true)));  // the columns' number is symbolic
  options().nvrtc_check = checked;
}

TEST_CASE("narrow columns: a NaN and signed zeros") {
  std::vector<float> values(70 * 3, -0.0f);
  values[3 * 40 + 1] = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = from_span(std::span<const float>(values), {1, 70, 3});
  auto f = compile(
      [](const Tensor& x) {
        return std::vector<Tensor>{sum(x, 1), amax(x, 1), amin(x, 1)};
      },
      {.on_compile_error = OnFailure::raise});
  const std::vector<Tensor> eager{sum(x, 1), amax(x, 1), amin(x, 1)}, compiled = f(x);
  for (const std::vector<Tensor>& results : {eager, compiled})
    for (std::size_t i = 0; i < results.size(); ++i) {
      const View<const float> got = results[i].data<float>();
      CHECK(std::signbit(got[0]) == (i > 0));
      CHECK(got[0] == 0);
      CHECK(got[1] != got[1]);
      CHECK(std::signbit(got[2]) == (i > 0));
    }
}
