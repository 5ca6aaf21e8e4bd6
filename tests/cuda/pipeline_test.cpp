// Pipelines that copy to a CUDA device ahead of the loop, and that stack what lies there. Skipped without a
// GPU.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: batches are copied to the device while the loop computes there") {
  const data::Dataset rows = {reshape(arange(6000), {100, 60}), arange(100)};
  Generator generator(1), same(1);
  const auto on_host = rows | data::shuffle(generator) | data::batch(16);
  const auto on_device = rows | data::shuffle(same) | data::batch(16) | data::to(Device::cuda()) | data::prefetch(3);
  auto step = compile([](const Tensor& x, const Tensor& y) { return sum(x, 1) + y; });
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto batch = on_host.begin();
    for (auto [x, y] : on_device) {
      CHECK(x.device() == Device::cuda());
      CHECK(y.device() == Device::cuda());
      const auto [host_x, host_y] = *batch;
      const Tensor got = to(step(x, y), Device::cpu());
      CHECK(all(got == sum(host_x, 1) + host_y).item<bool>());
      ++batch;
    }
    CHECK(batch == on_host.end());
  }
}

TEST_CASE("cuda: elements on the device are stacked there") {
  std::vector<Tensor> rows;
  for (int i = 0; i < 3; ++i) rows.push_back(to(arange(4) + i, Device::cuda()));
  for (const Tensor& batch : rows | data::batch(3)) {
    CHECK(batch.device() == Device::cuda());
    CHECK(all(to(batch, Device::cpu()) == stack({arange(4), arange(4) + 1, arange(4) + 2})).item<bool>());
  }
}

TEST_SUITE_END();
