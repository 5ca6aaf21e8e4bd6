// A limit on the host's memory: whatever a call needs beyond it is refused before it is touched, nothing has changed,
// and the same call is right as soon as there is memory.
#include "base/host_memory.hpp"
#include "base/options.hpp"
#include "base/storage.hpp"
#include "tests/runtime/support.hpp"
#include "tests/trace/support.hpp"
#include "weft/grad.hpp"
#include "weft/loops.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace trace_test;

namespace {

constexpr std::int64_t large = std::int64_t{1} << 23;  // 32 MiB of f32

// Makes the call with room for 8 MiB in which nothing is cached, then with room for all.
template <class Call>
void refused_then_right(Call call, const Numbers& expected) {
  {
    const test::KeepOptions keep;
    options().memory_limit = std::uint64_t{1} << 40;
    CHECK_THROWS_AS(allocate(Device::cpu(), std::size_t{1} << 41), OutOfMemory);  // free lists are given back
    options().memory_limit = host_memory_held() + (std::uint64_t{8} << 20);
    for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(call().eval(), OutOfMemory);
    CHECK(host_memory_held() <= options().memory_limit);
  }
  CHECK(numbers_of(call()) == expected);
}

Tensor large_ones() { return ones({large}).eval(); }

}  // namespace

TEST_CASE("four tebibytes are refused by each executor, under the limit that the machine has") {
  auto f = [](const Tensor& x) { return zeros({std::int64_t{1} << 40}) + select(x, 0, 0); };
  const Tensor x = vector_of({1, 2});
  CHECK_THROWS_AS(f(x).eval(), OutOfMemory);
  for (Backend backend : backends) {
    auto compiled = compile(f, {.backend = backend});
    for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(compiled(x), OutOfMemory);
  }
  CHECK(numbers_of(x + 1) == Numbers{2, 3});
}

TEST_CASE("a draw that there is no memory for has the name of the function that draws") {
  constexpr std::int64_t many = std::int64_t{1} << 40;
  CHECK(message_of([&] { uniform({many}).eval(); }).starts_with("[uniform] "));
  CHECK(message_of([&] { normal({many}, 1, 2).eval(); }).starts_with("[normal] "));
}

TEST_CASE("a result, with state beside it") {
  for (Backend backend : {Backend::compiled, Backend::eager}) {
    auto f = compile(
        [](Tensor& state, const Tensor& x) {
          state = state + 1;
          return select(x * state, 0, 0) + sum(x * 2 + state, 0) + sum(exp(x) * 0, 0) * x;
        },
        {.backend = backend});
    Tensor state = ones({});
    const Tensor x = large_ones();
    refused_then_right([&] { return slice(f(state, x), 0, 0, 1); }, {2 + 4.0f * large});
    CHECK(state.item() == 2);
  }
}

TEST_CASE("the arena of a plan") {
  auto f = compile([](const Tensor& x, const Tensor& w) { return matmul(exp(x) * 0 + 2, w); });
  const Tensor x = zeros({large / 8, 8}).eval(), w = ones({8, 1}).eval();
  refused_then_right([&] { return slice(f(x, w), 0, 0, 1); }, {16});
}

TEST_CASE("the panels of a product that have to be packed, and what is computed eagerly") {
  const Tensor wide = ones({8192, 4096}).eval(), vector = ones({2048, 1}).eval();
  const Tensor strided = slice(slice(wide, 0, 0, slice_end, 2), 1, 0, slice_end, 2).eval();
  refused_then_right([&] { return slice(matmul(strided, vector), 0, 0, 1); }, {2048});
  const Tensor x = large_ones();
  refused_then_right([&] { return sum((x + 1) * 2); }, {4.0f * large});
}

TEST_CASE("the copy of an argument with another layout, and a constant") {
  auto f = compile([](const Tensor& x) { return sum(x * 2); });
  const Tensor turned = transpose(ones({4096, 2048}).eval()).eval();
  refused_then_right([&] { return f(turned); }, {2.0f * large});
  auto g = compile([](const Tensor& x) {
    const std::vector<float> numbers(static_cast<std::size_t>(large), 3);
    return sum(constant(numbers, {large}) * x);
  });
  refused_then_right([&] { return g(ones({})); }, {3.0f * large});
}

TEST_CASE("the later ones of several results, for the first of which there is memory") {
  const Tensor x = cast(arange(3 * 1500000), DType::f32).eval();  // a row of it has 6 MiB
  const Tensor rows = reshape(x, {3, 1500000});
  const auto results = cond(
      vector_of({1}) > 0,
      [](const Tensor& a) {
        return std::vector<Tensor>{select(a, 0, 0), select(a, 0, 1), select(a, 0, 2)};
      },
      [](const Tensor& a) {
        return std::vector<Tensor>{select(a, 0, 2), select(a, 0, 1), select(a, 0, 0)};
      },
      rows);
  {
    const test::KeepOptions keep;
    options().memory_limit = std::uint64_t{1} << 40;
    CHECK_THROWS_AS(allocate(Device::cpu(), std::size_t{1} << 41), OutOfMemory);  // free lists are given back
    options().memory_limit = host_memory_held() + (std::uint64_t{8} << 20);
    for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(Tensor(results[2]).eval(), OutOfMemory);
  }
  for (int i = 0; i < 3; ++i)
    CHECK(numbers_of(slice(results[static_cast<std::size_t>(i)], 0, 0, 2)) ==
          Numbers{1500000.f * static_cast<float>(i), 1500000.f * static_cast<float>(i) + 1});
}
