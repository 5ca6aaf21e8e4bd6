// Every f32 through every function over lanes, at each ISA that this machine runs. Minutes; `tools/test --long`.
#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/codegen/lanes_functions.hpp"
#include "tests/codegen/lanes_ulp.hpp"

using namespace lanes_test;

namespace {

constexpr std::uint32_t block = 1 << 16;

// The worst error of a block at each ISA, against one computation of the exact values. A result that is the exact one
// rounded is at most half a unit off and needs no arithmetic; equal results of two ISAs are looked at once.
void check_block(std::uint32_t first, const Measured<double>& row, const Function<float, float>* const* functions,
                 int isa_count, double* worst) {
  thread_local std::vector<float> in(block), out(block), before(block);
  thread_local std::vector<double> exact(block);
  for (std::uint32_t i = 0; i < block; ++i) in[i] = std::bit_cast<float>(first + i), exact[i] = row.exact(in[i]);
  double here = 0;
  for (int isa = 0; isa < isa_count; ++isa) {
    functions[isa]->apply(out.data(), in.data(), block);
    if (isa == 0 || std::memcmp(out.data(), before.data(), block * sizeof(float)) != 0) {
      here = 0;
      for (std::uint32_t i = 0; i < block; ++i)
        if (std::bit_cast<std::uint32_t>(out[i]) != std::bit_cast<std::uint32_t>(static_cast<float>(exact[i])))
          here = std::max(here, ulp_error(out[i], exact[i]));
      std::swap(out, before);
    }
    worst[isa] = std::max(worst[isa], here);
  }
}

}  // namespace

TEST_CASE("every f32") {
  Isa isas[3];
  const int count = supported(isas);
  for (const auto& row : measured_f32) {
    const Function<float, float>* functions[3];
    for (int isa = 0; isa < count; ++isa) {
      functions[isa] = isas[isa].functions->f32_unary;
      while (functions[isa]->name != row.name) ++functions[isa];
    }
    std::atomic<std::uint32_t> next = 0;
    double worst[3] = {0.5, 0.5, 0.5};
    std::mutex mutex;
    const auto work = [&] {
      double own[3] = {};
      for (std::uint32_t at; (at = next++) < 65536;) check_block(at * block, row, functions, count, own);
      const std::lock_guard lock(mutex);
      for (int isa = 0; isa < count; ++isa) worst[isa] = std::max(worst[isa], own[isa]);
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
    for (auto& thread : threads) thread.join();
    for (int isa = 0; isa < count; ++isa) {
      INFO(row.name << " " << isas[isa].name);
      MESSAGE(worst[isa] << " ULP");
      CHECK(worst[isa] <= row.bound[isas[isa].has_fma ? 0 : 1]);
    }
  }
}
