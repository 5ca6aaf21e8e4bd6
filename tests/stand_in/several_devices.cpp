// several_devices DRIVER: functions whose values are on two devices compile and run with each option, and what can't be
// is refused in words. DRIVER is the path of the stand-in (bench/no_gpu), which has two devices and computes nothing.
// Ends with 0 when all is right.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <weft/checkpoint.hpp>
#include <weft/cuda.hpp>
#include <weft/interop/dlpack.hpp>
#include <weft/offload.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

constexpr Device first = Device::cuda(0), second = Device::cuda(1);
int failed = 0;

void check(bool is_right, const char* what) {
  if (is_right) return;
  std::printf("wrong: %s\n", what);
  ++failed;
}
template <class F>
std::string message_of(F f) {
  try {
    f();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

struct Net {
  nn::Linear a{64, 64}, b{64, 64};
  Tensor operator()(const Tensor& x) const { return b(to(gelu(a(x)), b.weight->device())); }
  WEFT_MEMBERS(a, b)
};
Tensor step(Net& net, const Tensor& x) {
  auto [loss, slopes] = value_and_grad([&](const Net& n) { return mean(square(n(x))); }, net);
  tree::for_each(net, slopes, [](Param& p, const Param& slope) { p = p - slope * 0.1; });
  return loss;
}

// The same with what the first layer keeps for its derivative in the host's memory.
Tensor offloaded_step(Net& net, const Tensor& x) {
  auto [loss, slopes] = value_and_grad(
      [&](const Net& n) {
        const Tensor y = offload([&](const Tensor& x) { return gelu(n.a(gelu(n.a(x)))); })(x);
        return mean(square(n.b(to(y, n.b.weight->device()))));
      },
      net);
  tree::for_each(net, slopes, [](Param& p, const Param& slope) { p = p - slope * 0.1; });
  return loss;
}

}  // namespace

int main(int count, char** arguments) {
  setenv("FAKE_DEVICES", "2", 1);
  void* const driver = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
  const auto waits = driver ? reinterpret_cast<int (*)()>(dlsym(driver, "fake_waits")) : nullptr;
  const auto make_current = driver ? reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuCtxSetCurrent")) : nullptr;
  if (!waits || !make_current) return 2;
  Generator numbers(1);
  const auto drawn = [&](Device device) { return to(normal({32, 64}, 0, 1, numbers), device).eval(); };
  const Tensor x = drawn(first), y = drawn(second);
  const struct {
    const char* name;
    CompileOptions options;
  } all[] = {{"plain", {}},
             {"memory_budget", {.memory_budget = 0.5}},
             {"dynamic", {.dynamic = true}},
             {"constant_parameters", {.constant_parameters = true}},
             {"O0", {.level = Level::O0}},
             {"max_autotune", {.mode = CompileMode::max_autotune}},
             {"reduce_overhead", {.mode = CompileMode::reduce_overhead}},
             {"async", {.async = true}}};
  for (const auto& [name, options] : all) {
    Net net;
    nn::to(net.a, first);
    nn::to(net.b, second);
    const auto f = compile(step, options);
    const std::string message = message_of([&] {
      for (int call = 0; call < 4; ++call) f(net, x).eval();
    });
    if (!message.empty()) std::printf("%s\n", message.c_str());
    check(message.empty(), name);
    check(net.a.weight->device() == first && net.b.weight->device() == second, "state changed its device");
  }

  // Parts of both devices have begun when the first one runs: it does so in its own device's context.
  Net net;
  nn::to(net.a, first);
  nn::to(net.b, second);
  const auto offloads = compile(offloaded_step);
  const std::string offloaded = message_of([&] {
    for (int call = 0; call < 4; ++call) offloads(net, x).eval();
  });
  if (!offloaded.empty()) std::printf("%s\n", offloaded.c_str());
  check(offloaded.empty(), "values in the host's memory");

  // Others may change what is current.
  make_current(nullptr);
  check(message_of([] { cuda::Event(first).record(); }).empty(), "an event, where another context was current");

  // Memory of others is given back when the copy that reads it has ended.
  const auto copies = compile([](const Tensor& x) { return to(x, second) * 2; });
  auto* const managed = to_dlpack(x);
  static int (*const waits_so_far)() = waits;
  static int waits_at_end = 0;
  static auto* const give_back = managed->deleter;
  managed->deleter = [](auto* given) {
    waits_at_end = waits_so_far();
    give_back(given);
  };
  Tensor adopted = from_dlpack(managed), copied = copies(adopted).eval();
  const int waits_before = waits();
  adopted = {};
  check(waits_at_end == waits_before + 1, "memory of others that a copy reads");
  // A check that is still to fail is told before its value is on the other device, whose word says nothing of it.
  const auto fail_checks = reinterpret_cast<void (*)(int)>(dlsym(driver, "fake_fail_checks"));
  const auto look_up = compile([](const Tensor& table, const Tensor& rows) { return gather(table, rows); });
  const Tensor rows = to(arange(4), first).eval();
  for (int call = 0; call < 3; ++call) copies(look_up(x, rows)).eval();
  cuda::synchronize(first);
  fail_checks(2);
  const Tensor read = look_up(x, rows);
  fail_checks(0);
  check(message_of([&] { copies(read).eval(); }).find("an index is out of range") != std::string::npos,
        "a check that fails later");
  check(message_of([&] { to(copies(look_up(x, rows)), Device::cpu()).eval(); }).empty(), "the next call");

  const auto moved = compile([](const Tensor& x, const Tensor& y) { return to(softmax(x, -1), second) + y; });
  check(message_of([&] { moved(x, y).eval(); }).empty(), "a value that is moved");
  const std::string schedule = explain(moved, x, y).schedule;
  check(schedule.find("part 0 on cuda:0") != schedule.npos && schedule.find("part 1 on cuda:1") != schedule.npos,
        "explain shows the parts");
  const auto mixed = compile([](const Tensor& x, const Tensor& y) { return x + y; });
  check(message_of([&] { mixed(x, y); }).find("[add] operands live on different devices") == 0, "mixed operands");
  const auto loop = compile([](const Tensor& x, const Tensor& y) {
    using State = std::tuple<Tensor, Tensor, Tensor>;
    return while_loop([](const State& state) { return std::get<0>(state) < 3; },
                      [](const State& state) {
                        const auto& [i, a, b] = state;
                        return State(i + 1, a * 2, b + 1);
                      },
                      State(full({}, 0, {.dtype = DType::i64}), x, y));
  });
  const std::string refused = message_of([&] { loop(x, y); });
  check(refused.find("one operation has values on cuda:0 and cuda:1") != refused.npos &&
            refused.find("several_devices.cpp:") != refused.npos,
        "a loop on two devices");
  return failed == 0 ? 0 : 1;
}
