// profile() and the watch of steps on a device: times by its own clock, whatever waits, and however many steps there
// are.
#include "weft/profile.hpp"

#include "tests/cuda/support.hpp"
#include "weft/compile.hpp"
#include "weft/loops.hpp"
#include "weft/ops.hpp"

using namespace weft;
using namespace cuda_test;

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("steps near the device's bandwidth and peak, though launches take longer than small steps") {
  const Tensor x = to(sample({4096, 4096}, 1), Device::cuda()), w = to(sample({4096, 4096}, 2), Device::cuda());
  const auto f = compile([](const Tensor& x, const Tensor& w) { return softmax(matmul(x, w), 1); });
  const Profile profile = weft::profile(f, x, w);
  REQUIRE(profile.steps.size() == 2);
  MESSAGE(to_string(profile));
  CHECK(profile.machine_bandwidth > 5e11);
  CHECK(profile.steps[0].of_peak > 0.5);
  CHECK(profile.steps[0].of_peak < 1.3);
  CHECK(profile.steps[1].of_bandwidth > 0.3);
  CHECK(profile.steps[1].of_bandwidth < 3);  // its operand may be in the cache
  CHECK(profile.seconds < 10 * profile.seconds_in_steps);

  const Tensor small = to(sample({1000}, 3), Device::cuda());
  const auto g = compile([](const Tensor& x) { return sum(exp(x), 0); });
  for (const Profile::Step& step : weft::profile(g, small).steps) CHECK(step.seconds < 1e-4);
}

TEST_CASE("more steps than a queue takes, loops, and steps that wait for the device") {
  const Tensor x = to(sample({64, 64}, 1), Device::cuda()), w = to(sample({64, 64}, 2), Device::cuda());
  const auto many = compile([](const Tensor& x, const Tensor& w) {
    Tensor y = x;
    for (int i = 0; i < 1500; ++i) y = tanh(matmul(y, w));
    return y;
  });
  const Profile all = weft::profile(many, x, w);
  double runs = 0;
  for (const Profile::Step& step : all.steps) runs += step.runs;
  CHECK(runs >= 1500);

  const auto loop = compile([](const Tensor& x, const Tensor& w) {
    return while_loop([](const Tensor& y) { return sum(y * y) > 1e-3; },
                      [&](const Tensor& y) { return tanh(matmul(y, w)) * 0.5; }, x * 0.1);
  });
  const Profile waits = weft::profile(loop, x * 1.0, w * 0.01);
  REQUIRE(waits.steps.size() >= 3);
  for (const Profile::Step& step : waits.steps) CHECK(step.seconds > 0);
}

TEST_CASE("what runs eagerly is not seen: an argument that is computed when the call needs it, and a plain function") {
  const Tensor x = to(sample({1000}, 1), Device::cuda());
  const auto f = compile([](const Tensor& x) { return sum(x * x, 0); });
  const Profile of_call = weft::profile([&] { return f(tanh(exp(x))); });
  REQUIRE_FALSE(of_call.steps.empty());
  for (const Profile::Step& step : of_call.steps) CHECK(step.function.starts_with("compile at "));
  const Profile plain = weft::profile([&] { return tanh(exp(x)).eval(); });
  CHECK(plain.steps.empty());
  CHECK(plain.seconds > 0);
}

TEST_SUITE_END();
