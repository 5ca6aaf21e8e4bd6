// A device's memory: what is counted, what is kept, a limit, and that blocks of many sizes leave little unused.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "base/storage.hpp"
#include "tests/cuda/support.hpp"
#include "weft/cuda.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

// No limit, and nothing kept from other tests.
struct Fresh {
  Fresh() {
    cuda::set_memory_limit(0);
    cuda::empty_cache();
    cuda::reset_peak_memory();
  }
  ~Fresh() { cuda::set_memory_limit(0); }
};

using Block = std::unique_ptr<Storage, void (*)(Storage*)>;
Block block(std::int64_t bytes) { return {allocate(Device::cuda(), static_cast<std::size_t>(bytes)), release}; }
Tensor on_device(std::int64_t bytes) { return full({bytes / 4}, 1.5, {DType::f32, Device::cuda()}).eval(); }

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("memory in use, its peak, what is kept, and what is given back") {
  const Fresh fresh;
  const cuda::MemoryStats before = cuda::memory_stats();
  CHECK(before.limit == 0);
  CHECK(before.peak == before.in_use);
  {
    const Block a = block(400 * mebibyte);
    CHECK(cuda::memory_stats().in_use == before.in_use + 400 * mebibyte);
    CHECK(cuda::memory_stats().blocks == before.blocks + 1);
    const Block b = block(80 * mebibyte);
    CHECK(cuda::memory_stats().in_use == before.in_use + 480 * mebibyte);
  }
  const cuda::MemoryStats after = cuda::memory_stats();
  CHECK(after.in_use == before.in_use);
  CHECK(after.blocks == before.blocks);
  CHECK(after.peak == before.in_use + 480 * mebibyte);
  CHECK(after.reserved >= before.in_use + 480 * mebibyte);
  CHECK(after.peak_reserved >= after.reserved);
  // The same memory serves again, in other pieces.
  for (int i = 0; i < 100; ++i) block((i % 11 + 1) * 40 * mebibyte);
  CHECK(cuda::memory_stats().reserved <= after.reserved + 48 * mebibyte);
  cuda::empty_cache();
  CHECK(cuda::memory_stats().reserved < after.reserved - 300 * mebibyte);
  cuda::reset_peak_memory();
  CHECK(cuda::memory_stats().peak == before.in_use);
  CHECK(cuda::memory_stats().peak_reserved == cuda::memory_stats().reserved);
}

TEST_CASE("a limit: OutOfMemory, state as before, and the next call works") {
  const Fresh fresh;
  struct State {
    Param weights{full({8 * mebibyte / 4}, 1.0, {DType::f32, Device::cuda()})};
    WEFT_MEMBERS(weights)
  } state;
  const auto step = compile([](State& s, const Tensor& x) {
    s.weights = s.weights + 1;
    return concat({x * 2, x * 3}, 0);
  });
  const Tensor small = on_device(mebibyte), large = on_device(48 * mebibyte);
  step(state, small).eval();
  const std::int64_t limit = cuda::memory_stats().in_use + 40 * mebibyte;
  cuda::set_memory_limit(limit);
  CHECK(cuda::memory_stats().limit == limit);
  std::string said;
  try {
    step(state, large).eval();
  } catch (const OutOfMemory& error) {
    said = error.what();
  }
  CAPTURE(said);
  CHECK(said.find("are in use, the limit is " + std::to_string(limit)) != std::string::npos);
  CHECK(said.find("results 96.00 MiB") != std::string::npos);
  CHECK(state.weights.tensor().data<float>()[0] == 2);
  step(state, small).eval();
  CHECK(state.weights.tensor().data<float>()[0] == 3);
  CHECK(cuda::memory_stats().in_use <= limit);
  cuda::set_memory_limit(0);
  step(state, large).eval();
  CHECK(state.weights.tensor().data<float>()[0] == 4);
  CHECK_THROWS_WITH_AS(cuda::set_memory_limit(-1),
                       doctest::Contains("[set_memory_limit] a limit of -1 bytes: it is 0 for none, or more"), Error);
}

TEST_CASE("100000 steps of mixed sizes reserve no more than a tenth beyond what they need") {
  const Fresh fresh;
  const cuda::MemoryStats before = cuda::memory_stats();
  std::mt19937_64 random(11);
  const auto make = [](std::int64_t bytes) { return allocate(Device::cuda(), static_cast<std::size_t>(bytes)); };
  const std::int64_t widths[] = {768, 2304, 3072, 768, 1};
  std::vector<Storage*> kept, live;
  for (int step = 0; step < 100'000; ++step) {
    const auto tokens = static_cast<std::int64_t>(1 + random() % 2048);
    for (int layer = 0; layer < 3; ++layer) {
      for (const std::int64_t width : widths) live.push_back(make(tokens * width * 64));
      release(make(tokens * tokens * 48));
    }
    if (step % 50 == 0) {  // what outlives its step lies among the others
      kept.push_back(make(static_cast<std::int64_t>(1000 + random() % (4 * mebibyte))));
      if (kept.size() > 60) {
        std::swap(kept[random() % kept.size()], kept.back());
        release(kept.back());
        kept.pop_back();
      }
    }
    if (step % 2) std::reverse(live.begin(), live.end());
    for (Storage* const block : live) release(block);
    live.clear();
  }
  const cuda::MemoryStats after = cuda::memory_stats();
  for (Storage* const block : kept) release(block);
  const double needed = static_cast<double>(after.peak - before.in_use),
               taken = static_cast<double>(after.peak_reserved - before.reserved);
  CAPTURE(needed / mebibyte);
  CAPTURE(taken / mebibyte);
  CHECK(taken <= 1.1 * needed);
}

TEST_SUITE_END();
