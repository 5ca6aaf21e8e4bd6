// 64 threads that make 10^5 calls each: of one function, with shapes that are new, decisions, values that are read,
// kernels made in the background, state of their own, and eager operations. Results are checked; under TSan races are
// found. WEFT_THREADS=threads,calls takes other numbers.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/trace/support.hpp"
#include "weft/random.hpp"
#include "weft/stance.hpp"

using namespace weft;
using namespace trace_test;

namespace {

struct Model {
  Param weight = full({8}, 2);
  Buffer calls = zeros({}).eval();
  WEFT_MEMBERS(weight, calls)
};

float element(const Tensor& x, std::size_t i) { return x.data<float>()[i]; }

}  // namespace

TEST_CASE("64 threads make 10^5 calls each") {
  int threads = 64, calls = 100000;
  if (const char* chosen = std::getenv("WEFT_THREADS")) REQUIRE(std::sscanf(chosen, "%d,%d", &threads, &calls) == 2);
  const auto plain = compile([](const Tensor& x) { return (x + 1) * 2; });
  const auto async = compile([](const Tensor& x) { return sum(x * x); }, {.dynamic = true, .async = true});
  const auto decides = compile([](const Tensor& x) {
    if ((sum(x) > 0).item<bool>()) return x * 2;
    return x - 1;
  });
  const auto reads = compile([](const Tensor& x) { return x / sum(x).item<float>(); });
  const auto trains = compile([](Model& m, const Tensor& x) {
    m.calls = Buffer(m.calls.tensor() + 1);
    return sum(m.weight * x);
  });
  const auto serves = compile([](const Model& m, const Tensor& x) { return sum(m.weight * x); });
  const Model shared;
  std::vector<int> wrong(static_cast<std::size_t>(threads), 0);
  std::vector<std::thread> running;
  for (int id = 0; id < threads; ++id)
    running.emplace_back([&, id] {
      int& bad = wrong[static_cast<std::size_t>(id)];
      const float value = static_cast<float>(id % 7 + 1);
      const Tensor x = full({8}, value).eval(), down = (x * -1).eval();
      Model own;
      for (int i = 0; i < calls; ++i) {
        bad += element(plain(x), 3) != (value + 1) * 2;
        if (i % 16 == 0) bad += element(decides(i % 32 ? x : down), 0) != (i % 32 ? value * 2 : -value - 1);
        if (i % 64 == 1) {
          const int size = 2 + (i / 64 + id) % 5;
          bad += async(full({size}, value)).item<float>() != static_cast<float>(size) * value * value;
        }
        if (i % 64 == 2) bad += element(reads(x), 0) != 0.125f;
        if (i % 16 == 3) bad += trains(own, x).item<float>() != 16 * value;
        if (i % 16 == 4) bad += serves(shared, x).item<float>() != 16 * value;
        if (i % 16 == 5) bad += sum(x * 3 + down).item<float>() != 16 * value;
      }
      bad += own.calls.tensor().item<float>() != static_cast<float>((calls + 12) / 16);
    });
  for (std::thread& thread : running) thread.join();
  CHECK(wrong == std::vector<int>(static_cast<std::size_t>(threads), 0));
}
