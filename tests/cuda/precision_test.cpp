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

TEST_CASE(
    "cuda: operations on 16-bit floats in one kernel round one by one: the bits are the host's and those of eager") {
  const auto bits = [](const Tensor& value) {
    const Tensor all = cast(to(value, Device::cpu()), DType::f32);
    const View<const float> data = all.data<float>();
    return std::vector<float>(data.begin(), data.end());
  };
  const auto chain = [](const Tensor& x, const Tensor& y) {
    return std::vector<Tensor>{fmod(x * x, x),
                               x * y - x,
                               x / 3 - y * y,
                               (x + y) - (x - y),
                               sqrt(abs(x)) * y,
                               maximum(x * y, 0.1),
                               cummax(x / 3, 1).values + y,
                               x - sum(x * y, 1, true)};
  };
  for (const DType type : {DType::bf16, DType::f16}) {
    const Tensor x = cast(sample({40, 96}, 1) * 8, type), y = cast(sample({40, 96}, 2), type);
    const auto compiled = compile(chain);
    const std::vector<Tensor> host = chain(x, y), there = compiled(to(x, Device::cuda()), to(y, Device::cuda())),
                              eager = chain(to(x, Device::cuda()), to(y, Device::cuda()));
    for (std::size_t i = 0; i + 1 < host.size(); ++i) {
      INFO("dtype ", static_cast<int>(type), ", result ", i);
      CHECK(bits(there[i]) == bits(host[i]));
    }
    for (std::size_t i = 0; i < host.size(); ++i) {
      INFO("dtype ", static_cast<int>(type), ", result ", i);
      CHECK(bits(there[i]) == bits(eager[i]));
    }
    // Which of equal numbers comes first depends on the roundings.
    const Tensor low = cast(sample({33, 65}, 3), type);
    const auto least = compile([](const Tensor& v) { return cummin(v / 3, 1).indices; });
    CHECK(all(to(least(to(low, Device::cuda())), Device::cpu()) == cummin(low / 3, 1).indices).item<bool>());
  }
}

TEST_CASE("cuda: products and convolutions of f32 read 10 bits of fractions where tf32 is asked for, else all") {
  const auto check = [](const char* name, auto f, const Sizes& sizes, const Sizes& of_weights, const char* by) {
    CAPTURE(name);
    const Tensor a = to(sample(sizes, 1), Device::cuda()), b = to(sample(of_weights, 2), Device::cuda());
    const Tensor right = f(cast(a, DType::f64), cast(b, DType::f64)).eval();
    const double largest = amax(abs(right)).item();
    const auto distance = [&](Float32Products products) {
      const auto compiled = compile(f, {.float32_products = products});
      const Tensor first = compiled(a, b).eval();
      CHECK(first.dtype() == DType::f32);
      CHECK(all(compiled(a, b) == first).template item<bool>());
      const bool said = explain(compiled, a, b).schedule.find(by) != std::string::npos;
      CHECK(said == (products == Float32Products::tf32));
      return amax(abs(cast(first, DType::f64) - right)).item() / largest;
    };
    CHECK(distance(Float32Products::ieee) < 4e-6);
    const double rounded = distance(Float32Products::tf32);
    CHECK(rounded < 1.0 / 512);  // each operand by less than 2^-10 of itself
    return rounded > 1e-5;       // it was rounded
  };
  const auto product = [&](const char* name, auto f, const Sizes& sizes, const Sizes& of_weights) {
    CHECK(check(name, f, sizes, of_weights, "cuBLASLt, tf32"));
  };
  product("a product", [](const Tensor& x, const Tensor& w) { return matmul(x, w); }, {192, 256}, {256, 320});
  product("a batch", [](const Tensor& x, const Tensor& w) { return matmul(x, w); }, {3, 192, 256}, {3, 256, 320});
  product("a product's gradient",
          [](const Tensor& x, const Tensor& w) {
            return grad([&](const Tensor& v) { return sum(square(matmul(x, v))); }, w);
          },
          {192, 256}, {256, 320});
  // Of which the library may do some in f32.
  const auto convolution = [&](const char* name, auto f) {
    return check(name, f, {4, 32, 24, 24}, {64, 32, 3, 3}, "cuDNN, tf32");
  };
  const bool rounded[] = {
      convolution("a convolution", [](const Tensor& x, const Tensor& w) { return conv2d(x, w, {.padding = 1}); }),
      convolution("the gradient of its images",
                  [](const Tensor& x, const Tensor& w) {
                    return grad([&](const Tensor& v) { return sum(square(conv2d(v, w, {.padding = 1}))); }, x);
                  }),
      convolution("the gradient of its weights", [](const Tensor& x, const Tensor& w) {
        return grad([&](const Tensor& v) { return sum(square(conv2d(x, v, {.padding = 1}))); }, w);
      })};
  CHECK((rounded[0] || rounded[1] || rounded[2]));
}

TEST_SUITE_END();

}  // namespace weft
