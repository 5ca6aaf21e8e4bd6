// GELU by tanh and its gradient in the launch of the product before them: against the host, eagerly, of the same
// numbers; odd sizes, a bias of the layer and one of the program, arguments that are kept, operands that begin
// anywhere. Skipped without a GPU that it was measured on.
#include <doctest/doctest.h>

#include "tests/cuda/products.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

template <class F>
void check_followed(F f, const Operands& operands) {
  const test::KeepOptions keep;
  options().product_epilogues = 2;
  const auto together = compile(f);
  Operands host;
  for (const Tensor& each : operands) host.push_back(to(each, Device::cpu()).eval());
  const std::vector<Tensor> right = f(host);
  const double unit = unit_of(operands[0].dtype());
  for (int call = 0; call < 3; ++call) {
    const std::vector<Tensor> found = together(operands);
    REQUIRE(found.size() == right.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      const Tensor wide = cast(right[i], DType::f32);
      const double most = amax(abs(wide)).item();
      CHECK(amax(abs(to(cast(found[i], DType::f32), Device::cpu()) - wide)).item() <= 2 * unit * most);
    }
  }
  CHECK(explain(together, operands).schedule.find(", and ") != std::string::npos);
}

std::vector<Tensor> layer(const Operands& x) { return {gelu(nn::linear(x[0], x[1], x[2]), Gelu::tanh)}; }
std::vector<Tensor> kept(const Operands& x) {
  const Tensor y = nn::linear(x[0], x[1], x[2]);
  return {y, gelu(y, Gelu::tanh)};
}
std::vector<Tensor> biased(const Operands& x) { return {gelu(matmul(x[0], transpose(x[1])) + x[2], Gelu::tanh)}; }
// The gradient of what is before GELU: x[0] x[1]^T is that of its result, and x[3] its argument.
std::vector<Tensor> slope(const Operands& x) {
  const Tensor upstream = matmul(x[0], transpose(x[1]));
  return {weft::grad([&](const Tensor& of) { return sum(cast(gelu(of, Gelu::tanh) * upstream, DType::f32)); }, x[3])};
}
// Nothing begins at a multiple of 16 bytes.
std::vector<Tensor> of_parts(const Operands& x) {
  return {gelu(nn::linear(x[0], x[1], slice(x[2], 0, 1, 257)), Gelu::tanh)};
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_hopper_device));

TEST_CASE("cuda: GELU by tanh and its gradient are part of the product before them") {
  for (const auto& [dtype, m, n, k] : {std::tuple(DType::bf16, 129, 264, 72), std::tuple(DType::bf16, 1024, 1536, 512),
                                       std::tuple(DType::f16, 257, 1000, 136)}) {
    CAPTURE(m);
    const Operands given{there({m, k}, 1, dtype), there({n, k}, 2, dtype, 0.1), there({n}, 3, dtype),
                         there({m, n}, 4, dtype)};
    check_followed(layer, given);
    check_followed(kept, given);
    check_followed(biased, given);
    check_followed(slope, given);
  }
  check_followed(of_parts, {there({128, 64}, 5, DType::bf16), there({256, 64}, 6, DType::bf16, 0.1),
                            there({257}, 7, DType::bf16)});
}

TEST_SUITE_END();
