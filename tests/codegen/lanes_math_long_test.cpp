// Every f32 through every function over lanes, at each ISA that this machine runs. Minutes; `tools/test --long`.
#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <string>
#include <thread>
#include <vector>

#include "tests/codegen/lanes_functions.hpp"
#include "tests/codegen/lanes_ulp.hpp"

using namespace lanes_test;

TEST_CASE("every f32") {
  Isa isas[3];
  const int count = supported(isas);
  for (const auto& row : measured_f32) {
    const Function<float, float>* functions[3];
    for (int isa = 0; isa < count; ++isa) {
      functions[isa] = isas[isa].functions->f32_unary;
      while (functions[isa]->name != row.name) ++functions[isa];
    }
    constexpr std::uint32_t block = 1 << 16;
    std::atomic<std::uint32_t> next = 0;
    std::vector<double> worst(3);
    std::atomic_flag lock;
    const auto work = [&] {
      std::vector<float> in(block), out(block);
      std::vector<double> exact(block), own(3);
      for (std::uint32_t at; (at = next++) < block;) {
        for (std::uint32_t i = 0; i < block; ++i) in[i] = std::bit_cast<float>(at * block + i), exact[i] = row.exact(in[i]);
        for (int isa = 0; isa < count; ++isa) {
          functions[isa]->apply(out.data(), in.data(), block);
          for (std::uint32_t i = 0; i < block; ++i) own[isa] = std::max(own[isa], ulp_error(out[i], exact[i]));
        }
      }
      while (lock.test_and_set()) std::this_thread::yield();
      for (int isa = 0; isa < count; ++isa) worst[isa] = std::max(worst[isa], own[isa]);
      lock.clear();
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
    for (auto& thread : threads) thread.join();
    for (int isa = 0; isa < count; ++isa) {
      MESSAGE(row.name << " " << isas[isa].name << ": " << worst[isa] << " ULP");
      CHECK(worst[isa] <= row.bound[isas[isa].has_fma ? 0 : 1]);
    }
  }
}
