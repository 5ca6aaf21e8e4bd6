// Two devices of one process: copies between them, plans of each, what draws and what learns on each, and operands that
// are mixed. Skipped where there is one.
#include <doctest/doctest.h>

#include <array>
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

// The first layer on the first device, the second on the second.
struct Split {
  nn::Linear in{12, 40}, out{40, 3};
  Tensor operator()(const Tensor& x) const { return out(to(gelu(in(x)), out.weight->device())); }
  WEFT_MEMBERS(in, out)
};
Split split_of(const Net& net, Device last) {
  Split split;
  split.in = net.in;
  split.out = net.out;
  nn::to(split.in, first);
  nn::to(split.out, last);
  return split;
}

TEST_CASE("a model on two devices learns as one on one device does, from one compiled step") {
  const auto step = compile([](Split& net, optim::AdamW& adam, const Tensor& x, const Tensor& y) {
    auto [loss, slopes] = value_and_grad([&](const Split& n) { return mean(square(n(x) - y)); }, net);
    adam.update(net, slopes);
    return loss;
  });
  seed(3);
  const Net made;
  const Tensor x = to(sample({16, 12}, 4), first), y = sample({16, 3}, 5);
  std::vector<double> losses[2];
  Split trained[2] = {split_of(made, first), split_of(made, second)};
  for (const Device last : {first, second}) {
    Split& net = trained[last.index];
    optim::AdamW adam(net, optim::AdamWOptions{.lr = 0.01});
    const Tensor there = to(y, last);
    for (int i = 0; i < 12; ++i) losses[last.index].push_back(step(net, adam, x, there).item<double>());
    CHECK(net.out.weight->device() == last);
  }
  // Other kernels, as nothing is fused across devices.
  for (std::size_t i = 0; i < losses[0].size(); ++i) CHECK(losses[1][i] == doctest::Approx(losses[0][i]).epsilon(1e-4));
  CHECK(losses[0].back() < losses[0].front());
  CHECK(apart(trained[1].in.weight, to(trained[0].in.weight, Device::cpu())) < 1e-3);
  CHECK(apart(trained[1].out.weight, to(trained[0].out.weight, Device::cpu())) < 1e-3);
}

struct Pair {
  Tensor x, v;
  WEFT_MEMBERS(x, v)
};

TEST_CASE("gradients go back through both devices, and sizes may change") {
  const auto f = compile([](const Tensor& x, const Tensor& v) {
    const auto loss = [&](const Tensor& a, const Tensor& b) {
      const Tensor there = to(tanh(a), second) * b;
      return sum(to(there, first) * a) + to(sum(square(there)), first);
    };
    return grad([&](const Pair& at) { return loss(at.x, at.v); }, Pair{x, v});
  });
  const auto on_one = [](const Tensor& x, const Tensor& v) {
    const auto loss = [&](const Tensor& a, const Tensor& b) {
      const Tensor there = tanh(a) * b;
      return sum(there * a) + sum(square(there));
    };
    return grad([&](const Pair& at) { return loss(at.x, at.v); }, Pair{x, v});
  };
  for (const std::int64_t size : {1000, 1000, 1000, 37, 5001, 1000}) {
    const Tensor x = sample({size}, 1), v = sample({size}, 2);
    const auto [a, b] = f(to(x, first), to(v, second));
    const auto [own_a, own_b] = on_one(x, v);
    CHECK(a.device() == first);
    CHECK(b.device() == second);
    CHECK(apart(a, own_a) < 1e-5);
    CHECK(apart(b, own_b) < 1e-5);
  }
}

TEST_CASE("values of both devices reach the host, and the host's reach both") {
  const auto f = compile([](const Tensor& x, const Tensor& y, const Tensor& scale) {
    const Tensor a = sum(x * scale), b = sum(y * scale);
    return std::tuple(to(a, Device::cpu()) + to(b, Device::cpu()), to(x, second) + y);
  });
  const Tensor x = sample({300}, 1), y = sample({300}, 2);
  for (int call = 0; call < 4; ++call) {
    const Tensor scale = full({}, 1.0 + call);
    const auto [sums, both] = f(to(x, first), to(y, second), scale);
    CHECK(sums.device() == Device::cpu());
    CHECK(apart(sums, (sum(x) + sum(y)) * scale) < 1e-5);
    CHECK(apart(both, x + y) < 1e-6);
  }
}

TEST_CASE("a check that fails on the second device is thrown by the call, and state stays as it was") {
  const auto step = compile([](Param& w, Param& v, const Tensor& rows) {
    const Tensor read = index_select(v, 0, rows);
    w = w + to(sum(read), first);
    v = v * 2;
    return sum(w);
  });
  Param w(ones({4}, {.device = first})), v(ones({6}, {.device = second}));
  const auto rows = [](std::int64_t last) { return to(from_list<std::int64_t>({0, 5, last}), second); };
  for (int i = 0; i < 3; ++i) step(w, v, rows(2)).eval();
  const Tensor before_w = to(w, Device::cpu()).eval(), before_v = to(v, Device::cpu()).eval();
  const std::string message = message_of([&] { step(w, v, rows(6)).eval(); });
  CAPTURE(message);
  CHECK(message.find("6") != message.npos);
  CHECK(same(w, before_w));
  CHECK(same(v, before_v));
  step(w, v, rows(1)).eval();
  CHECK(same(v, before_v * 2));
}

TEST_CASE("a check that is still to fail is told who has its value on another device") {
  const auto look_up = compile([](const Tensor& table, const Tensor& rows, const Tensor& x) {
    Tensor slow = x;
    for (int i = 0; i < 40; ++i) slow = matmul(slow, x) * 0.01;
    const Tensor moved = rows + cast(sum(slow) * 0, DType::i64);  // the check waits for all of that
    return gather(table, moved);
  });
  const auto send = compile([](const Tensor& x) { return to(x * 2, second) + 1; });
  const Tensor table = to(sample({4, 3}, 1), first).eval(), x = to(sample({2048, 2048}, 2), first).eval();
  const auto rows = [](std::int64_t last) { return to(from_list<std::int64_t>({0, 3, last}), first).eval(); };
  const Tensor good = rows(1), bad = rows(9);
  for (int i = 0; i < 4; ++i) send(look_up(table, good, x)).eval();
  cuda::synchronize(first);
  const std::string message =
      message_of([&] { static_cast<void>(to(send(look_up(table, bad, x)), Device::cpu()).eval()); });
  CHECK(message.find("out of range") != message.npos);
  const std::string next =
      message_of([&] { static_cast<void>(to(send(look_up(table, good, x)), Device::cpu()).eval()); });
  CAPTURE(next);
  CHECK(next.empty());
}

TEST_CASE("parts of two devices are explained, profiled, and called by several threads") {
  const auto f = compile([](const Tensor& x) { return to(softmax(to(cumsum(x, 1) * 0.1, second), -1), first) + x; });
  const Tensor x = sample({64, 300}, 1), there = to(x, first).eval();
  const Tensor expected = softmax(cumsum(x, 1) * 0.1, -1) + x;
  const Explanation explained = explain(f, there);
  CHECK(explained.schedule.find("on cuda:0") != std::string::npos);
  CHECK(explained.schedule.find("on cuda:1") != std::string::npos);
  CHECK(explained.kernels.size() >= 3);
  CHECK(profile([&] { f(there).eval(); }).steps.size() >= 3);
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (std::size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&, t] {
      right[t] = true;
      for (int i = 0; i < 40; ++i) right[t] = right[t] && apart(f(there), expected) < 1e-5;
    });
  for (std::thread& thread : threads) thread.join();
  for (const bool each : right) CHECK(each);
}

TEST_CASE("a loop on two devices is refused with its line") {
  const auto f = compile([](const Tensor& x, const Tensor& y) {
    using State = std::tuple<Tensor, Tensor, Tensor>;
    return while_loop([](const State& state) { return std::get<0>(state) < 3; },
                      [](const State& state) {
                        const auto& [i, a, b] = state;
                        return State(i + 1, a * 2, b + 1);
                      },
                      State(full({}, 0, {.dtype = DType::i64}), x, y));
  });
  const Tensor x = ones({3}, {.device = first}), y = ones({3}, {.device = second});
  const std::string message = message_of([&] { f(x, y); });
  CAPTURE(message);
  CHECK(message.find("one operation has values on cuda:0 and cuda:1") != message.npos);
  CHECK(message.find("two_devices_test.cpp:") != message.npos);
}

TEST_CASE("operands of two devices are refused, eagerly and compiled, with the names of both") {
  // Not of one number, which is made wherever it is needed.
  const Tensor a = to(sample({2, 3}, 1), first).eval(), b = to(sample({2, 3}, 2), second).eval();
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
