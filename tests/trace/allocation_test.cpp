// The path of a call that has been seen allocates nothing from the heap. Where memory is wanted and there is none, a
// call fails as if it had not been made.
#include <thread>

#include "tests/count_allocations.hpp"
#include "tests/trace/support.hpp"
#include "weft/loops.hpp"

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
}  // namespace

TEST_CASE("the counter counts") {
  CHECK(allocations_of([] {
          int* volatile number = new int(1);
          delete number;
        }) == 1);
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

TEST_CASE("nor with loops, one inside another, choices, products, sums by index, sorts and running sums") {
  using Two = std::pair<Tensor, Tensor>;
  const auto count_of = [](auto body) {
    auto f = compile(body, {.check = Check::never});
    const Tensor x = sin(reshape(arange(16 * 16) * 1.0f, {16, 16})).eval();
    return allocations_of([&] { f(x); });
  };
  CHECK(count_of([](const Tensor& x) {
          return scan([](const Tensor& h, const Tensor& row) { return Two(tanh(h + row), h * 2); }, zeros({16}), x)
              .second;
        }) == 0);
  CHECK(count_of([](const Tensor& x) {
          const auto rows = [](const Tensor& h, const Tensor& row) {
            const auto elements = [](const Tensor& s, const Tensor& one) { return Two(s + one, s); };
            return Two(h + scan(elements, zeros({}), row).second, h);
          };
          return scan(rows, zeros({16}), x).first;
        }) == 0);
  CHECK(count_of([](const Tensor& x) {
          return while_loop([](const Tensor& v) { return sum(v) < 1e4f; }, [](const Tensor& v) { return v * 2 + 1; },
                            x);
        }) == 0);
  CHECK(count_of([](const Tensor& x) {
          return cond(
              sum(x) > 0, [&] { return x * 2; }, [&] { return x + 1; });
        }) == 0);
  CHECK(count_of([](const Tensor& x) { return matmul(x, transpose(x)); }) == 0);
  CHECK(count_of([](const Tensor& x) { return index_add(x, 0, arange(16) % 7, x); }) == 0);
  CHECK(count_of([](const Tensor& x) { return sort(x, 1).values + topk(x, 16, 1).values; }) == 0);
  CHECK(count_of([](const Tensor& x) { return cumsum(x, 1); }) == 0);
}

namespace {
// Makes the n-th allocation of a call fail, for growing n, on a thread whose caches are empty, until there is no n-th;
// after each failure the call is made again. Returns how often one failed.
template <class Prepare, class Call, class Verify>
int fail_each_allocation(Prepare prepare, Call call, Verify verify) {
  int failures = 0;
  for (long n = 0;; n += 1 + n / 16) {
    prepare();
    bool failed = false;
    std::thread([&] {
      until_failure = n;
      try {
        call();
      } catch (const std::bad_alloc&) {
        failed = true;
      } catch (const Error&) {  // OutOfMemory
        failed = true;
      }
      const bool reached = until_failure < 0;
      until_failure = -1;
      if (!reached) n = -1;
    }).join();
    CAPTURE(failures);
    verify(failed);
    if (n < 0) return failures;
    failures += failed;
  }
}
}  // namespace

TEST_CASE("wherever memory ends in a call: state is as before, nothing is half done, and the next call works") {
  for (Backend backend : {Backend::compiled, Backend::eager}) {
    auto f = [](Model& m, const Tensor& x, Scalar rate) {
      for (Linear& layer : m.layers) layer.bias = layer.bias + x * rate;
      return x * rate;  // pointwise throughout: each bias is written into the memory that it had
    };
    auto compiled_before = compile(f, {.check = Check::never, .backend = backend});
    Tensor x = ones({300}).eval();
    Model model;
    auto reset = [&] {
      model = {};
      for (int i = 0; i < 3; ++i) model.layers.push_back({ones({300}).eval(), (ones({300}) * 1).eval()});
    };
    auto bias_is = [&](float expected) {
      for (const Linear& layer : model.layers) CHECK(numbers_of(layer.bias) == Numbers(300, expected));
    };
    auto verify = [&](auto& function) {
      return [&](bool failed) {
        bias_is(failed ? 1 : 3);
        CHECK(numbers_of(function(model, x, 2)) == Numbers(300, 2.0f));
        bias_is(failed ? 3 : 5);
      };
    };
    reset();
    compiled_before(model, x, 2);
    CHECK(fail_each_allocation(
              reset, [&] { compiled_before(model, x, 2); }, verify(compiled_before)) > 5);
    // On the call that traces and compiles, too.
    auto fresh = compile(f, {.check = Check::never, .backend = backend});
    auto start_over = [&] {
      reset();
      fresh = compile(f, {.check = Check::never, .backend = backend});
    };
    CHECK(fail_each_allocation(
              start_over, [&] { fresh(model, x, 2); }, verify(fresh)) > 40);
  }
}

TEST_CASE("wherever memory ends in a call whose product packs what was written before: state is as before") {
  auto f = compile(
      [](Tensor& sum, const Tensor& x) {
        sum = sum + x * 2;
        return matmul(sum, transpose(sum));
      },
      {.check = Check::never});
  const Tensor x = ones({40, 40}).eval();
  Tensor sum;
  auto reset = [&] { sum = (ones({40, 40}) * 1).eval(); };
  reset();
  const float* memory = sum.data<float>().data();
  f(sum, x);
  REQUIRE(sum.data<float>().data() == memory);  // it was written where it was
  CHECK(fail_each_allocation(
            reset, [&] { f(sum, x); },
            [&](bool failed) {
              CHECK(numbers_of(sum) == Numbers(1600, failed ? 1 : 3));
              CHECK(numbers_of(f(sum, x)) == Numbers(1600, failed ? 360 : 1000));
            }) > 3);
}

TEST_CASE(
    "wherever memory ends in a call whose product a library may do, after state was written: state is as before") {
  auto f = compile(
      [](Tensor& state, const Tensor& x) {
        state = state + x * 2;
        return slice(slice(matmul(state, transpose(state)), 0, 0, 1), 1, 0, 1);
      },
      {.check = Check::never});
  const Tensor x = ones({1024, 256}).eval();
  Tensor state;
  auto reset = [&] { state = (ones({1024, 256}) * 1).eval(); };
  reset();
  const float* memory = state.data<float>().data();
  f(state, x);
  REQUIRE(state.data<float>().data() == memory);  // it was written where it was
  CHECK(fail_each_allocation(
            reset, [&] { f(state, x).eval(); },
            [&](bool failed) {
              CHECK(numbers_of(state) == Numbers(1024 * 256, failed ? 1.f : 3.f));
              CHECK(numbers_of(f(state, x)) == Numbers{failed ? 9 * 256.f : 25 * 256.f});
            }) > 3);
}
