// Two devices of one process: copies between them, plans of each, what draws and what learns on each, and operands that
// are mixed. Skipped where there is one.
#include <doctest/doctest.h>

#include <thread>

#include "tests/cuda/values.hpp"
#include "tests/message_of.hpp"
#include "weft/cuda.hpp"

using namespace weft;
using namespace cuda_test;
using test::message_of;

namespace {

std::string two_devices() {
  if (const std::string why = a_device(); !why.empty()) return why;
  return runtime::cuda::device_count() < 2 ? "a second device" : "";
}

constexpr Device first = Device::cuda(0), second = Device::cuda(1);

struct Net {
  nn::Linear in{12, 40}, out{40, 3};
  Tensor operator()(const Tensor& x) const { return out(gelu(in(x))); }
  WEFT_MEMBERS(in, out)
};

bool same(const Tensor& a, const Tensor& b) { return all(to(a, Device::cpu()) == to(b, Device::cpu())).item<bool>(); }

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(two_devices));

TEST_CASE("values of one device are copied to another") {
  const Tensor x = sample({3, 1 << 20}, 5), there = to(x, first), beyond = to(there, second);
  CHECK(beyond.device() == second);
  CHECK(all(to(to(beyond * 2, first), Device::cpu()) == x * 2).item<bool>());
}

TEST_CASE("a copy waits for what makes its value, and the memory is not used again before it is read") {
  const Tensor x = to(sample({2048, 2048}, 1), first).eval();
  for (int round = 0; round < 20; ++round) {
    Tensor made = x;
    for (int i = 0; i < 4; ++i) made = matmul(made, x) * 0.02;
    const Tensor moved = to(made, second).eval();
    const Tensor expected = to(made, Device::cpu()).eval();
    made = {};
    const Tensor other = full({2048, 2048}, round, {.device = first}).eval();  // where `made` was
    CHECK(same(moved, expected));
    CHECK(amax(abs(other - round)).item() == 0);
  }
}

TEST_CASE("one compiled function runs on each device, by a plan of its own") {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return softmax(matmul(x, w), -1) + sum(x); });
  const Tensor x = sample({33, 64}, 1), w = sample({64, 20}, 2);
  Tensor found[2];
  for (int call = 0; call < 4; ++call)  // replayed
    for (const Device device : {first, second}) {
      const Tensor y = f(to(x, device), to(w, device));
      CHECK(y.device() == device);
      found[device.index] = y;
    }
  CHECK(apart(found[0], f(x, w)) < 1e-5);
  CHECK(same(found[0], found[1]));
}

TEST_CASE("a compiled function moves values between devices") {
  const auto f = compile([](const Tensor& x) { return to(to(x * 2, second) + 1, first) * 3; });
  const Tensor x = sample({5000}, 3), there = to(x, first).eval();
  for (int call = 0; call < 4; ++call) {
    const Tensor y = f(there);
    CHECK(y.device() == first);
    CHECK(apart(y, (x * 2 + 1) * 3) < 1e-6);
  }
}

TEST_CASE("operands of two devices are refused, eagerly and compiled, with the names of both") {
  const Tensor a = ones({2, 3}, {.device = first}).eval(), b = ones({2, 3}, {.device = second}).eval();
  const auto both = [](const Tensor& a, const Tensor& b) { return a * b; };
  const auto refused = [](const std::string& message, const char* operation, const char* operands) {
    CAPTURE(message);
    CHECK(message.find(operation) == 0);
    CHECK(message.find("different devices") != message.npos);
    CHECK(message.find(operands) != message.npos);
    CHECK(message.find("two_devices_test.cpp:") != message.npos);
  };
  refused(message_of([&] { both(a, b); }), "[mul] ", "f32[2,3]@cuda:0 x f32[2,3]@cuda:1");
  refused(message_of([&] { compile(both)(a, b); }), "[mul] ", "f32[2,3]@cuda:0 x f32[2,3]@cuda:1");
  refused(message_of([&] { matmul(a, transpose(b)); }), "[matmul] ", "f32[2,3]@cuda:0 x f32[3,2]@cuda:1");
  refused(message_of([&] { nn::linear(a, b); }), "[linear] ", "f32[2,3]@cuda:0 x f32[2,3]@cuda:1");
}

TEST_CASE("draws are the same on each device, and so are steps of training") {
  Generator a(7), b(7);
  CHECK(same(normal({1001}, 0, 1, a, {.device = first}), normal({1001}, 0, 1, b, {.device = second})));
  const auto step = compile([](Net& net, const Tensor& x) {
    auto [loss, slopes] = value_and_grad([&](const Net& n) { return mean(square(n(x))); }, net);
    tree::for_each(net, slopes, [](Param& p, const Param& slope) { p = p - slope * 0.01; });
    return loss;
  });
  seed(3);
  const Net made;
  const Tensor x = sample({16, 12}, 4);
  std::vector<double> losses[2];
  for (const Device device : {first, second}) {
    Net net = made;
    nn::to(net, device);
    for (int i = 0; i < 8; ++i) losses[device.index].push_back(step(net, to(x, device)).item<double>());
  }
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0].back() < losses[0].front());
}

TEST_CASE("threads work on a device each, and memory is counted for each") {
  const std::int64_t before = cuda::memory_stats(second).in_use;
  const Tensor held = full({1 << 20}, 2, {.device = second}).eval();
  CHECK(cuda::memory_stats(second).in_use >= before + (4 << 20));
  const auto f = compile([](const Tensor& x) { return softmax(x * 2, -1); });
  const Tensor x = sample({64, 300}, 1), expected = f(to(x, first)).eval();
  bool right[2] = {true, true};
  std::vector<std::thread> threads;
  for (const Device device : {first, second})
    threads.emplace_back([&, device] {
      const Tensor there = to(x, device).eval();
      for (int i = 0; i < 50; ++i) right[device.index] = right[device.index] && same(f(there), expected);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right[0]);
  CHECK(right[1]);
}

TEST_SUITE_END();
