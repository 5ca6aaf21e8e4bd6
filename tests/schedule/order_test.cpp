// The order of steps, and where temporaries lie then.
#include <doctest/doctest.h>

#include "tests/schedule/traced.hpp"

using namespace weft;
using test::Traced;

namespace {

constexpr std::int64_t wide = 512 * 512 * 4;  // bytes

// Products of `count` wide products, each [512,512], with a column, and the sum of these.
Tensor narrow(Traced& t, Dim size, int count) {
  const Tensor x = t.input(DType::f32, Shape::of(size, 64));
  std::vector<Tensor> products;
  for (int i = 0; i < count; ++i) products.push_back(matmul(x, t.input(DType::f32, Shape::of(64, size))));
  const Tensor column = t.input(DType::f32, Shape::of(size, 1));
  Tensor total;
  for (const Tensor& product : products) {
    const Tensor reduced = matmul(product, column);
    total = total.defined() ? total + reduced : reduced;
  }
  return total;
}

}  // namespace

TEST_CASE("wide branches that are each reduced to little are alive one at a time") {
  for (const int count : {2, 5, 20}) {
    Traced t;
    const Schedule schedule = t.schedule({narrow(t, 512, count)});
    CHECK(schedule.arena_bytes.constant() >= wide);
    CHECK(schedule.arena_bytes.constant() < wide + 20 * 512 * 4 + 4096);
  }
}

TEST_CASE("the order of steps of symbolic sizes is that of their hints") {
  Traced t;
  const Schedule schedule = t.schedule({narrow(t, t.symbol(512), 5)});
  const std::int64_t n_is_512[] = {512};
  CHECK(dims::evaluate(schedule.arena_bytes, n_is_512) < wide + 20 * 512 * 4 + 4096);
}

TEST_CASE("state is still written where it was, behind all who read it, whatever an earlier place would free") {
  Traced t;
  const Tensor x = t.f32(256, 256), state = t.f32(256, 256);
  const Tensor gradient = matmul(x, x);
  const Tensor later = matmul(tanh(x), state);
  Schedule schedule = t.schedule({sum(later), state - softmax(gradient)});
  REQUIRE(schedule.donations.size() == 1);
  CHECK(schedule.donations[0].argument == 1);
  CHECK(schedule.donations[0].result == 1);
}
