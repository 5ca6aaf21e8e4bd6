// Few long rows on a CUDA device, which several blocks share: against the host in f64, and the same bits in each run.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

constexpr auto statistics = [](const Tensor& x) {
  return std::vector<Tensor>{amax(x, -1),      amin(x, -1),    sum(x, -1),
                             logsumexp(x, -1), softmax(x, -1), x - mean(x, -1, true)};
};
constexpr auto positions = [](const Tensor& x) { return std::vector<Tensor>{argmax(x, -1), argmin(x, -1)}; };

bool same_bits(const Tensor& a, const Tensor& b) { return all((a == b) | (isnan(a) & isnan(b))).item<bool>(); }

void check(const Tensor& x, double most) {
  const Tensor there = to(x, Device::cuda());
  auto compiled = compile(statistics);
  auto found = compile(positions);
  const std::vector<Tensor> expected = statistics(cast(x, DType::f64)), first = compiled(there),
                            expected_at = positions(x), at = found(there);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    const Tensor is = cast(to(first[i], Device::cpu()), DType::f64);
    CHECK(max(abs(is - expected[i]) / (abs(expected[i]) + max(abs(expected[i])))).item() <= most);
  }
  for (std::size_t i = 0; i < at.size(); ++i) CHECK(same_bits(to(at[i], Device::cpu()), expected_at[i]));
  for (int run = 0; run < 5; ++run) {  // from the third on as a graph
    const std::vector<Tensor> again = compiled(there), at_again = found(there);
    for (std::size_t i = 0; i < again.size(); ++i) CHECK(same_bits(again[i], first[i]));
    for (std::size_t i = 0; i < at.size(); ++i) CHECK(same_bits(at_again[i], at[i]));
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: statistics of few long rows are those of the host in f64, with the same bits in each run") {
  struct Case {
    std::int64_t rows, columns;
  };
  // With and without a rest; rows that no block cuts; more rows than are cut.
  for (const auto& [rows, columns] : {Case{1, 128256}, Case{1, 50257}, Case{1, 10'000'000}, Case{16, 128256},
                                      Case{3, 33001}, Case{132, 70001}, Case{1, 16001}, Case{133, 70000}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const Tensor x = sample({rows, columns}, 1);
    check(x, 1e-5);
    check(cast(x, DType::bf16).eval(), 1e-2);
  }
}

TEST_CASE("cuda: of equal elements in several parts the first is found, and a NaN is greater than all") {
  const std::int64_t columns = 128256;
  for (const std::int64_t step : {1, 384, 1000, 100'000}) {
    const Tensor equal = cast(remainder(arange(columns), step) == 7 % step, DType::f32);
    const Tensor nan = where(arange(columns) == columns - 5, full({1}, std::nan("")), equal);
    for (const Tensor& x : {equal, nan, -equal}) {
      const Tensor row = reshape(x, {1, columns}).eval();
      const Tensor there = compile([](const Tensor& t) { return argmax(t, -1); })(to(row, Device::cuda()));
      CHECK(to(there, Device::cpu()).item<std::int64_t>() == argmax(row, -1).item<std::int64_t>());
    }
  }
}

TEST_CASE("cuda: a part of -inf alone leaves a softmax as it is, and a row of it gives NaN as on the host") {
  const std::int64_t columns = 200'000;
  const Tensor low = full({1, 1}, -std::numeric_limits<double>::infinity());
  const Tensor x = reshape(sample({columns}, 3), {1, columns});
  const Tensor masked = where(reshape(arange(columns), {1, columns}) < 150'000, low, x).eval();
  const auto step = [](const Tensor& t) { return std::vector<Tensor>{softmax(t, -1), logsumexp(t, -1)}; };
  const std::vector<Tensor> there = compile(step)(to(masked, Device::cuda())), here = step(cast(masked, DType::f64));
  for (std::size_t i = 0; i < here.size(); ++i)
    CHECK(max(abs(cast(to(there[i], Device::cpu()), DType::f64) - here[i])).item() < 1e-5);
}

TEST_SUITE_END();
