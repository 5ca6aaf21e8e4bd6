// print, host_call and disable on a device: operands come to the host, and the call waits for them.
#include <stdexcept>

#include "tests/cuda/support.hpp"
#include "weft/effects.hpp"
#include "weft/weft.hpp"

using namespace weft;

TEST_SUITE_BEGIN("cuda" * test::needs(cuda_test::a_device));

namespace {

std::vector<double> seen;
std::vector<double> taken() { return std::exchange(seen, {}); }
using Values = std::vector<double>;

void see(const Tensor& x) {
  CHECK(x.device() == Device::cpu());
  seen.push_back(sum(x).item());
}
Tensor program(const Tensor& x) {
  host_call(see, x);
  const Tensor y = host_call(
      like(x),
      [](const Tensor& x) {
        see(x);
        return x * 2;
      },
      x + 1);
  host_call(see, sum(y) * 3);
  return fori(
      0, 2,
      [](const Index&, Tensor z) {
        host_call(see, z);
        return z + 1;
      },
      y);
}
Tensor on_device(double value) { return full({2, 3}, value, {.device = Device::cuda()}); }

}  // namespace

TEST_CASE("effects on a device: once a call, in order, with the values of the call") {
  const auto check = [](const Tensor& y, double x) {
    CHECK(y.device() == Device::cuda());
    CHECK(all(y == 2 * (x + 1) + 2).item<bool>());
    CHECK(taken() == Values{6 * x, 6 * (x + 1), 36 * (x + 1), 12 * (x + 1), 12 * (x + 1) + 6});
  };
  check(program(on_device(1)), 1);
  for (const Backend backend : {Backend::compiled, Backend::eager}) {
    auto f = compile(program, {.backend = backend});
    for (int i = 0; i < 6; ++i) check(f(on_device(i)), i);
  }
}

TEST_CASE("an exception ends a call on a device, and state is as before") {
  auto f = compile([](Tensor& state, const Tensor& x) {
    state = state + x;
    host_call(
        [](const Tensor& s) {
          if (s.item() > 12) throw std::runtime_error("too much");
        },
        sum(state));
  });
  Tensor state = on_device(0);
  f(state, on_device(1));
  f(state, on_device(1));
  CHECK_THROWS_WITH_AS(f(state, on_device(1)), "too much", std::runtime_error);
  CHECK(sum(state).item() == 12);
}

TEST_CASE("a disabled function gets values of the device, and what it gives goes on there") {
  auto f =
      compile([](const Tensor& x) { return disable([](const Tensor& y) { return y * sum(y).item(); })(x + 1) * 2; });
  for (int i = 0; i < 3; ++i) CHECK(all(f(on_device(i)) == 12. * (i + 1) * (i + 1)).item<bool>());
}

TEST_SUITE_END();
