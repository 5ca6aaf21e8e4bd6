// Columns of many rows that are added up: a thread has a pack of neighbouring columns.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct Results {
  Tensor sums, greatest, of_both;
  WEFT_MEMBERS(sums, greatest, of_both)
};
Results of_columns(const Tensor& x, const Tensor& y) {
  const Tensor both = cast(x, DType::f32) * y;
  return {sum(x, {0}), amax(x, {0}), sum(both, {0})};
}
// Parts that lie otherwise are joined for a product, and added up by column.
std::vector<Tensor> of_joined(const Tensor& q, const Tensor& k, const Tensor& weight) {
  const Tensor joined =
      reshape(permute(stack({q, k}, 0), {1, 3, 0, 2, 4}), {q.size(0) * q.size(2), 2 * q.size(1) * q.size(3)});
  return {matmul(joined, weight), sum(joined, {0})};
}

void same(const Tensor& there, const Tensor& here, double within) {
  const Tensor wanted = cast(here, DType::f64), apart = cast(to(there, Device::cpu()), DType::f64) - wanted;
  CHECK(amax(abs(apart)).item() <= within * (1 + amax(abs(wanted)).item()));
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: columns of many rows, in packs and not") {
  for (const auto& [rows, columns, dtype] : {std::tuple<int, int, DType>{16384, 768, DType::bf16},
                                             {16384, 3072, DType::f16},
                                             {16384, 264, DType::bf16},
                                             {8192, 1028, DType::f32},
                                             {4100, 2304, DType::bf16},
                                             {1024, 40960, DType::f32},
                                             {4096, 2305, DType::bf16}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const Tensor x = cast(sample({rows, columns}, 1), dtype).eval(), y = sample({rows, columns}, 2);
    const Results wanted = of_columns(x, y);
    const Results found = compile(of_columns)(to(x, Device::cuda()), to(y, Device::cuda()));
    const double within = dtype == DType::f32 ? 1e-6 : 5e-3;
    same(found.sums, wanted.sums, within);
    same(found.greatest, wanted.greatest, 0);
    same(found.of_both, wanted.of_both, 1e-6);
  }
}

// Rows of a larger tensor begin at no multiple of a word.
TEST_CASE("cuda: columns of rows that do not begin at words") {
  const auto inner = [](const Tensor& x) { return sum(slice(x, 0, 1, 8193, 1), {0}); };
  for (const int columns : {768, 770}) {
    const Tensor x = cast(sample({8194, columns}, 1), DType::bf16).eval();
    same(compile(inner)(to(x, Device::cuda())), inner(x), 5e-3);
  }
}

TEST_CASE("cuda: parts that are joined for a product are added up by column from there") {
  const Tensor q = cast(sample({4, 6, 1024, 64}, 1), DType::bf16).eval(),
               k = cast(sample({4, 6, 1024, 64}, 2), DType::bf16).eval();
  const Tensor weight = cast(sample({768, 64}, 3), DType::bf16).eval();
  const std::vector<Tensor> wanted = of_joined(q, k, weight);
  const std::vector<Tensor> found =
      compile(of_joined)(to(q, Device::cuda()), to(k, Device::cuda()), to(weight, Device::cuda()));
  same(found[0], wanted[0], 1e-2);
  same(found[1], wanted[1], 5e-3);
}

TEST_SUITE_END();
