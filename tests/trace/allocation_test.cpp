// The path of a call that has been seen allocates nothing from the heap.
#include <cstdlib>
#include <new>

#include "tests/trace/support.hpp"

namespace {
thread_local long allocations = -1;  // counted while not negative
void* counted(std::size_t size) {
  if (allocations >= 0) ++allocations;
  return std::malloc(size);
}
}  // namespace
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  if (allocations >= 0) ++allocations;
  return std::aligned_alloc(static_cast<std::size_t>(alignment), (size + static_cast<std::size_t>(alignment) - 1) /
                                                                     static_cast<std::size_t>(alignment) *
                                                                     static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace weft;
using namespace trace_test;

namespace {
struct Linear {
  Param weight, bias;
};
struct Model {
  std::vector<Linear> layers;
  std::string name = "a name that is longer than the small buffer";
};
// Heap allocations of one call, after a few that may.
template <class F>
long allocations_of(F call) {
  for (int i = 0; i < 5; ++i) call();
  allocations = 0;
  call();
  long result = allocations;
  allocations = -1;
  return result;
}
}  // namespace

TEST_CASE("the counter counts") {
  CHECK(allocations_of([] { delete new int(1); }) == 1);
}

TEST_CASE("no heap allocation in a call of a small function") {
  auto f = compile([](const Tensor& x) { return (x + 1) * 2; }, {.check = Check::never});
  Tensor x = ones({16});
  x.eval();
  CHECK(allocations_of([&] { f(x); }) == 0);
}

TEST_CASE("nor with state, Scalars, text and a hundred leaves") {
  auto f = compile(
      [](Model& m, const Tensor& x, Scalar rate) {
        for (Linear& layer : m.layers) layer.bias = layer.bias + x * rate;
        return m.layers[0].bias.tensor() * 2;
      },
      {.check = Check::never});
  Model model;
  for (int i = 0; i < 50; ++i) model.layers.push_back({ones({16}).eval(), ones({16}).eval()});
  Tensor x = ones({16});
  x.eval();
  Scalar rate = 0.5;
  CHECK(allocations_of([&] { f(model, x, rate); }) == 0);
}
