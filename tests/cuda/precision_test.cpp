// Autocast and GradScaler on a device: types, about the host's numbers, and no compilation after the first ones.
#include <doctest/doctest.h>

#include <cmath>
#include <weft/weft.hpp>

#include "tests/cuda/support.hpp"

namespace weft {
namespace {

using namespace cuda_test;

struct Net {
  nn::Linear in{64, 128}, out{128, 10};
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};
Tensor train_step(Net& net, optim::AdamW& opt, GradScaler& scaler, const Tensor& x, const Tensor& y) {
  auto [loss, gradients] = value_and_grad([&](const Net& m) { return scaler.scale(nn::cross_entropy(m(x), y)); }, net);
  scaler.step(opt, net, gradients = scaler.unscale(gradients));
  const Tensor unscaled = loss / scaler.current_scale();
  scaler.update();
  return unscaled;
}
std::vector<double> losses(Device device, DType type) {
  seed(1);
  Generator numbers(2);
  Net net;
  Tensor x = normal({32, 64}, 0, 1, numbers).eval(), y = randint({32}, 0, 10, numbers).eval();
  nn::to(net, device);
  x = to(x, device), y = to(y, device);
  optim::AdamW opt(net);
  GradScaler scaler({.growth_interval = 4, .device = device});
  auto step = compile(train_step, {.fullgraph = true, .autocast = type});
  std::vector<double> found;
  for (int i = 0; i < 12; ++i) {
    found.push_back(step(net, opt, scaler, i == 5 ? x * HUGE_VAL : x, y).item<double>());
    CHECK(net.in.weight->dtype() == DType::f32);
  }
  CHECK(scaler.current_scale().item<double>() == 131072);  // doubled, halved, and doubled
  CHECK(opt.steps.item() == 11);
  CHECK(explain(step, net, opt, scaler, x, y).recompiles.size() <= 1);
  return found;
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: autocast and GradScaler on a device give about what they give on the host") {
  for (const DType type : {DType::bf16, DType::f16}) {
    const std::vector<double> host = losses(Device::cpu(), type), device = losses(Device::cuda(), type);
    for (std::size_t i = 0; i < host.size(); ++i)
      if (i != 5) CHECK(std::abs(host[i] - device[i]) < 2e-2);
  }
}

TEST_SUITE_END();

}  // namespace weft
