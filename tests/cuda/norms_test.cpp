// Norms of many rows on a CUDA device, both ways: a thread has several packs of a row, or one, and some warps fewer.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/nn.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

struct Operands {
  Tensor x, y, weight, bias;
  WEFT_MEMBERS(x, y, weight, bias)
};
struct Results {
  Tensor added, output;
  Operands slopes;
  WEFT_MEMBERS(added, output, slopes)
};
Results norm_of_sum(const Operands& at, const Tensor& given) {
  Tensor added;
  const auto [value, slopes] = value_and_grad(
      [&](const Operands& p) {
        const Tensor both = p.x + p.y;
        const Tensor output = nn::layer_norm(both, p.weight, p.bias);
        return std::pair(sum(cast(output, DType::f32) * cast(given, DType::f32)), std::vector<Tensor>{both, output});
      },
      at);
  return {value.second[0], value.second[1], slopes};
}

void same(const Tensor& there, const Tensor& here, double within) {
  const Tensor wanted = cast(here, DType::f64), apart = cast(to(there, Device::cpu()), DType::f64) - wanted;
  CHECK(amax(abs(apart)).item() <= within * (1 + amax(abs(wanted)).item()));
}
void check_norm(std::int64_t rows, std::int64_t width, DType dtype, std::int64_t first = 0) {
  CAPTURE(rows);
  CAPTURE(width);
  CAPTURE(first);
  const auto rows_of = [&](std::uint64_t seed, Device device) {
    const Tensor all = to(cast(sample({first + rows * width}, seed), dtype).eval(), device);
    return reshape(slice(all, 0, first, first + rows * width, 1), {rows, width}).eval();
  };
  const Tensor weight = sample({width}, 3), bias = sample({width}, 4);
  const auto operands = [&](Device device) {
    return Operands{rows_of(1, device), rows_of(2, device), to(weight, device), to(bias, device)};
  };
  const Results wanted = norm_of_sum(operands(Device::cpu()), rows_of(5, Device::cpu()));
  const Results found = compile(norm_of_sum)(operands(Device::cuda()), rows_of(5, Device::cuda()));
  const double within = dtype == DType::f32 ? 1e-5 : 8e-3;
  same(found.added, wanted.added, 0);
  same(found.output, wanted.output, within);
  same(found.slopes.x, wanted.slopes.x, within);
  same(found.slopes.y, wanted.slopes.y, within);
  same(found.slopes.weight, wanted.slopes.weight, 1e-5);
  same(found.slopes.bias, wanted.slopes.bias, 1e-5);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: norms of many rows of all widths, both ways") {
  for (const std::int64_t width : {768, 1000, 1280, 1600}) check_norm(1024, width, DType::bf16);
  for (const std::int64_t width : {768, 1024}) check_norm(1024, width, DType::f32);
  check_norm(600, 768, DType::f16);
  check_norm(300, 768, DType::bf16);
}

TEST_CASE("cuda: norms of rows that do not begin at words") {
  check_norm(1024, 768, DType::bf16, 1);
  check_norm(1024, 768, DType::f32, 1);
}

TEST_SUITE_END();
